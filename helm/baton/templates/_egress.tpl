{{/* Rules of egress that gateways and workers share: Redis, DNS, the collector. */}}
{{- define "baton.egress" -}}
- to:
    {{- toYaml .Values.networkPolicy.dnsTo | nindent 4 }}
  ports:
    - port: 53
      protocol: UDP
    - port: 53
      protocol: TCP
{{- if include "baton.ownRedis" . }}
- to:
    - podSelector:
        matchLabels:
          {{- include "baton.selector" (list . "redis") | nindent 10 }}
  ports:
    - port: 6379
      protocol: TCP
{{- else }}
- {{- with .Values.networkPolicy.redisTo }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  ports:
    {{- range .Values.networkPolicy.redisPorts }}
    - port: {{ . }}
      protocol: TCP
    {{- end }}
{{- end }}
{{- with .Values.telemetry.otlpEndpoint }}
{{ include "baton.egressTo" (list . $.Values.networkPolicy.otlpTo) }}
{{- end }}
{{- end -}}

{{/* One rule for where a URL leads. Takes (URL, peers). */}}
{{- define "baton.egressTo" -}}
{{- $url := urlParse (index . 0) -}}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" -}}
- ports:
    - port: {{ default (ternary 443 80 (eq $url.scheme "https")) ($port | int) }}
      protocol: TCP
  {{- with index . 1 }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
