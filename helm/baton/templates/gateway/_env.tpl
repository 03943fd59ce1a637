{{/* Variables of a gateway alone. Numbers come from JSON as floats, so they are made whole. */}}
{{- define "baton.gatewayEnv" -}}
{{- $gateway := .Values.gateway -}}
- name: BATON_LISTEN
  value: {{ printf "%s:8080" $gateway.address | quote }}
- name: BATON_KEYS
  value: /etc/baton/keys
- name: BATON_DEFAULT_AGENT
  value: {{ $gateway.defaultAgent | quote }}
- name: BATON_ALLOW_HOST
  value: {{ include "baton.hosts" . | quote }}
{{- with $gateway.allowOrigins }}
- name: BATON_ALLOW_ORIGIN
  value: {{ join "," . | quote }}
{{- end }}
{{- if $gateway.tls.existingSecret }}
- name: BATON_TLS_CERT
  value: /etc/baton/tls/tls.crt
- name: BATON_TLS_KEY
  value: /etc/baton/tls/tls.key
{{- else if $gateway.trustProxy }}
- name: BATON_TRUST_PROXY
  value: {{ join "," $gateway.trustProxy | quote }}
{{- end }}
- name: BATON_AUTH
  value: {{ .Values.auth.mode | quote }}
{{- if .Values.auth.insecure }}
- name: BATON_INSECURE
  value: "true"
{{- end }}
{{- if eq .Values.auth.mode "keys" }}
- name: BATON_AUTH_KEYS
  value: /etc/baton/api-keys/keys.json
{{- else if eq .Values.auth.mode "jwt" }}
{{- with .Values.auth.jwt }}
- name: BATON_AUTH_ISSUER
  value: {{ .issuer | quote }}
- name: BATON_AUTH_AUDIENCE
  value: {{ .audience | quote }}
- name: BATON_AUTH_JWKS
  value: {{ .jwks | quote }}
- name: BATON_AUTH_ALGS
  value: {{ join "," .algorithms | quote }}
{{- if .requireDpop }}
- name: BATON_AUTH_REQUIRE_DPOP
  value: "true"
{{- end }}
{{- end }}
{{- end }}
{{- if $gateway.admin.enabled }}
# The only place that can be written to.
- name: BATON_ADMIN_LISTEN
  value: unix:/dev/shm/baton-admin.sock
# For `baton token revoke` in the same Pod.
- name: BATON_ADMIN
  value: unix:/dev/shm/baton-admin.sock
{{- else }}
- name: BATON_ADMIN_LISTEN
  value: none
{{- end }}
- name: BATON_GRACE_MS
  value: {{ int64 $gateway.graceMs | quote }}
- name: BATON_WITHDRAW_AFTER_MS
  value: {{ int64 $gateway.withdrawAfterMs | quote }}
- name: BATON_STALL_MS
  value: {{ int64 $gateway.stallMs | quote }}
- name: BATON_REQUEST_TIMEOUT_MS
  value: {{ int64 $gateway.requestTimeoutMs | quote }}
- name: BATON_QUEUE_LIMIT
  value: {{ int64 $gateway.queueLimit | quote }}
{{- with $gateway.limits }}
{{- if .requests }}
- name: BATON_LIMIT_REQUESTS
  value: {{ .requests | quote }}
{{- end }}
{{- if .bytes }}
- name: BATON_LIMIT_BYTES
  value: {{ .bytes | quote }}
{{- end }}
{{- range $name := list "streams" "sessions" "turns" }}
{{- with index $gateway.limits $name }}
- name: BATON_LIMIT_{{ upper $name }}
  value: {{ int64 . | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- if .Values.telemetry.otlpEndpoint }}
- name: BATON_TRACE_SAMPLE
  value: {{ .Values.telemetry.sample | quote }}
{{- end }}
{{- end -}}
