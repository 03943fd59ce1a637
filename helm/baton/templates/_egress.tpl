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

{{/* Ports on public addresses. What is left out: private, shared, link-local with the cloud's metadata, for tests, multicast,
and the IPv6 ways to IPv4. Takes the ports. */}}
{{- define "baton.egressPublic" -}}
- to:
    - ipBlock:
        cidr: 0.0.0.0/0
        except:
          {{- range list "0.0.0.0/8" "10.0.0.0/8" "100.64.0.0/10" "127.0.0.0/8" "169.254.0.0/16" "172.16.0.0/12" "192.0.0.0/24" "192.168.0.0/16" "198.18.0.0/15" "224.0.0.0/3" }}
          - {{ . }}
          {{- end }}
    # What is in 2000::/3 and leads to IPv4 is left out as well.
    - ipBlock:
        cidr: 2000::/3
        except:
          - 2001::/32
          - 2002::/16
  ports:
    {{- range . }}
    - port: {{ int . }}
      protocol: TCP
    {{- end }}
{{- end -}}
