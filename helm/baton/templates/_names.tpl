{{/* Names and labels. A component is gateway, worker, redis or test. */}}

{{- define "baton.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Short enough for the names of pools to follow. */}}
{{- define "baton.fullname" -}}
{{- $name := include "baton.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What selects Pods; it never changes. Takes (root, component). */}}
{{- define "baton.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "baton.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "baton.labels" -}}
{{- $root := index . 0 -}}
{{ include "baton.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "baton.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "baton.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Secrets: yours, or those that secrets.yaml makes. */}}

{{- define "baton.keysSecret" -}}
{{- default (printf "%s-keys" (include "baton.fullname" .)) .Values.signingKeys.existingSecret -}}
{{- end -}}

{{- define "baton.apiKeysSecret" -}}
{{- default (printf "%s-api-keys" (include "baton.fullname" .)) .Values.auth.keys.existingSecret -}}
{{- end -}}

{{- define "baton.redisName" -}}
{{- printf "%s-redis" (include "baton.fullname" .) -}}
{{- end -}}

{{/* Not empty if the chart's own Redis is used. */}}
{{- define "baton.ownRedis" -}}
{{- if and .Values.redis.enabled (not .Values.store.external.existingSecret) -}}yes{{- end -}}
{{- end -}}

{{/* Names by which gateways may be called. */}}
{{- define "baton.hosts" -}}
{{- $service := printf "%s-gateway" (include "baton.fullname" .) -}}
{{- $inside := list $service (printf "%s.%s" $service .Release.Namespace) (printf "%s.%s.svc" $service .Release.Namespace) (printf "%s.%s.svc.cluster.local" $service .Release.Namespace) -}}
{{- $outside := concat (ternary (list .Values.ingress.host) list .Values.ingress.enabled) (ternary .Values.gatewayApi.hostnames list .Values.gatewayApi.enabled) -}}
{{- concat $inside $outside .Values.gateway.allowHosts | uniq | join "," -}}
{{- end -}}
