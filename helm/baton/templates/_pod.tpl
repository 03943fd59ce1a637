{{/* What gateways and workers have in common. */}}

{{/* The restricted Pod Security Standard. Secrets are mounted for the group alone. */}}
{{- define "baton.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "baton.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Takes (root, image); what the image leaves empty is Baton's. */}}
{{- define "baton.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- $tag := default (default $root.Chart.AppVersion $root.Values.image.tag) $image.tag -}}
{{- printf "%s:%s" (default $root.Values.image.repository $image.repository) $tag -}}
{{- end -}}

{{/* Takes (root, labels that select, spread). */}}
{{- define "baton.topologySpread" -}}
{{- $labels := index . 1 -}}
{{- $spread := index . 2 -}}
{{- range $key, $when := dict "topology.kubernetes.io/zone" $spread.zone "kubernetes.io/hostname" $spread.node }}
{{- if $when }}
- maxSkew: 1
  topologyKey: {{ $key }}
  whenUnsatisfiable: {{ $when }}
  labelSelector:
    matchLabels:
      {{- $labels | nindent 6 }}
  # A rollout's new Pods are spread among themselves.
  matchLabelKeys: [pod-template-hash]
{{- end }}
{{- end }}
{{- end -}}

{{/* Which URL of Redis is whose. Takes (root, gateway or worker). */}}
{{- define "baton.storeEnv" -}}
{{- $root := index . 0 -}}
{{- $role := index . 1 -}}
- name: BATON_STORE
  valueFrom:
    secretKeyRef:
      {{- if include "baton.ownRedis" $root }}
      name: {{ include "baton.redisName" $root }}
      key: {{ $role }}-url
      {{- else }}
      {{- with $root.Values.store.external }}
      name: {{ .existingSecret }}
      key: {{ ternary (default .key .workerKey) .key (eq $role "worker") }}
      {{- end }}
      {{- end }}
{{- end -}}

{{/* Certificates to trust for TLS to Redis, as JSON: of yours, or of the bundled one's Secret. */}}
{{- define "baton.storeCa" -}}
{{- $own := ternary .Values.redis.tls.existingSecret "" (not (empty (include "baton.ownRedis" .))) -}}
{{- if and $own (not .Values.store.ca.existingSecret) -}}
{{- dict "existingSecret" $own "key" "ca.crt" | toJson -}}
{{- else -}}
{{- toJson .Values.store.ca -}}
{{- end -}}
{{- end -}}

{{/* Variables about the store, the logs and traces. */}}
{{- define "baton.env" -}}
{{- $ca := include "baton.storeCa" . | fromJson -}}
{{- if $ca.existingSecret }}
- name: BATON_STORE_CA
  value: /etc/baton/store-ca/{{ $ca.key }}
{{- end }}
{{- if .Values.caBundle.existingSecret }}
- name: SSL_CERT_FILE
  value: /etc/baton/ca-bundle/{{ .Values.caBundle.key }}
{{- end }}
- name: BATON_NAMESPACE
  value: {{ .Values.store.namespace | quote }}
- name: BATON_DURABILITY
  value: {{ .Values.store.durability }}
- name: BATON_LOG
  value: {{ .Values.log.level | quote }}
{{- if eq .Values.log.format "json" }}
- name: BATON_LOG_FORMAT
  value: json
{{- end }}
{{- if .Values.audit.enabled }}
- name: BATON_AUDIT_LOG
  value: "-"
{{- end }}
{{- with .Values.telemetry }}
{{- if .otlpEndpoint }}
- name: BATON_OTLP_ENDPOINT
  value: {{ .otlpEndpoint | quote }}
- name: OTEL_EXPORTER_OTLP_PROTOCOL
  value: {{ .otlpProtocol }}
{{- if .traceStore }}
- name: BATON_TRACE_STORE
  value: "true"
{{- end }}
{{- if .headers.existingSecret }}
- name: OTEL_EXPORTER_OTLP_HEADERS
  valueFrom:
    secretKeyRef:
      name: {{ .headers.existingSecret }}
      key: {{ .headers.key }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Certificates to trust, for Redis and for everybody else. */}}
{{- define "baton.caVolume" -}}
{{- range $name, $ca := dict "store-ca" (include "baton.storeCa" . | fromJson) "ca-bundle" .Values.caBundle }}
{{- if $ca.existingSecret }}
- name: {{ $name }}
  secret:
    secretName: {{ $ca.existingSecret }}
    defaultMode: 0440
    items:
      - key: {{ $ca.key }}
        path: {{ $ca.key }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "baton.caMount" -}}
{{- range $name, $ca := dict "store-ca" (include "baton.storeCa" . | fromJson) "ca-bundle" .Values.caBundle }}
{{- if $ca.existingSecret }}
- name: {{ $name }}
  mountPath: /etc/baton/{{ $name }}
  readOnly: true
{{- end }}
{{- end }}
{{- end -}}
