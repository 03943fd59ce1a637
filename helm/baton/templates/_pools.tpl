{{/* Pools of workers: what all have in common, and what one says otherwise. */}}

{{/* All of them by name, as JSON. */}}
{{- define "baton.pools" -}}
{{- $pools := dict -}}
{{- range $name, $pool := .Values.workers.pools -}}
{{- if not (kindIs "invalid" $pool) -}}
{{- $_ := set $pools $name (mergeOverwrite (deepCopy $.Values.workers.defaults) $pool) -}}
{{- end -}}
{{- end -}}
{{- toJson $pools -}}
{{- end -}}

{{/* What selects the Pods of one. Takes (root, name). */}}
{{- define "baton.poolSelector" -}}
{{ include "baton.selector" (list (index . 0) "worker") }}
baton/pool: {{ index . 1 }}
{{- end -}}

{{/* Relations between values that a schema cannot say. */}}
{{- define "baton.check" -}}
{{- $pools := include "baton.pools" . | fromJson -}}
{{- $faults := list -}}
{{- if not (hasKey $pools .Values.gateway.defaultAgent) -}}
{{- $faults = append $faults (printf "gateway.defaultAgent: workers.pools has no %q, but: %s" .Values.gateway.defaultAgent (keys $pools | sortAlpha | join ", ")) -}}
{{- end -}}
{{- range $name, $pool := $pools -}}
{{- if and $pool.autoscaling.enabled $pool.keda.enabled -}}
{{- $faults = append $faults (printf "workers.pools.%s: autoscaling and keda would fight; enable one of them" $name) -}}
{{- end -}}
{{- if and $pool.keda.enabled (not $pool.keda.prometheus) -}}
{{- $faults = append $faults (printf "workers.pools.%s.keda.prometheus: say where Prometheus is, as http://prometheus.monitoring:9090" $name) -}}
{{- end -}}
{{- end -}}
{{- if and (not .Values.store.external.existingSecret) (not .Values.redis.enabled) -}}
{{- $faults = append $faults "store.external.existingSecret: name a Secret with the URL of your Redis, or set redis.enabled" -}}
{{- end -}}
{{- if and (include "baton.ownRedis" .) (eq .Values.store.durability "replicated") -}}
{{- $faults = append $faults "store.durability: the bundled Redis has no replicas, so nothing would ever count as stored; use fast, or a Redis of yours" -}}
{{- end -}}
{{- if and (eq .Values.auth.mode "none") (not .Values.auth.insecure) -}}
{{- $faults = append $faults "auth.mode: with none anybody who reaches a gateway could use every session; use keys or jwt, or set auth.insecure" -}}
{{- end -}}
{{- if and (eq .Values.auth.mode "jwt") (not (and .Values.auth.jwt.issuer .Values.auth.jwt.audience .Values.auth.jwt.jwks)) -}}
{{- $faults = append $faults "auth.jwt: issuer, audience and jwks are all needed" -}}
{{- end -}}
{{- if and (ne .Values.auth.mode "none") (not .Values.auth.insecure) (not .Values.gateway.tls.existingSecret) (not .Values.gateway.trustProxy) -}}
{{- $faults = append $faults "gateway.trustProxy: name the networks of the proxies that end TLS, as [10.244.0.0/16] for the Pods of your ingress controller; or give gateway.tls.existingSecret, or set auth.insecure; [127.0.0.1] is enough for a trial by port-forward" -}}
{{- end -}}
{{- range .Values.gateway.trustProxy -}}
{{- if hasSuffix "/0" . -}}
{{- $faults = append $faults (printf "gateway.trustProxy: %s is everybody, and whoever is named is believed what he says of his clients; name your proxies" .) -}}
{{- end -}}
{{- end -}}
{{- if .Values.networkPolicy.enabled -}}
{{- $outside := or .Values.ingress.enabled .Values.gatewayApi.enabled (ne .Values.gateway.service.type "ClusterIP") -}}
{{- if and (or $outside .Values.monitoring.serviceMonitor.enabled) (not .Values.networkPolicy.gatewayFrom) -}}
{{- $faults = append $faults "networkPolicy.gatewayFrom: name who reaches the gateways, such as the namespaces of your ingress controller and of Prometheus; everybody is [{ipBlock: {cidr: 0.0.0.0/0}}]" -}}
{{- end -}}
{{- if and .Values.monitoring.podMonitor.enabled (not .Values.networkPolicy.workerFrom) -}}
{{- $faults = append $faults "networkPolicy.workerFrom: name who reads the metrics of the workers, such as the namespace of Prometheus" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.gatewayApi.enabled (not .Values.gatewayApi.parentRefs) -}}
{{- $faults = append $faults "gatewayApi.parentRefs: name the Gateway that the route belongs to" -}}
{{- end -}}
{{- if $faults -}}
{{- fail (printf "\n\n%s\n" (join "\n" $faults)) -}}
{{- end -}}
{{- end -}}
