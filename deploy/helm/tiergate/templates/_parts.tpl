{{- define "tiergate.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end -}}

{{- define "tiergate.config" -}}
{{ .Values.config | default (.Files.Get "gateway.yaml") }}
{{- end -}}

{{- define "tiergate.seconds" -}}
{{ $unit := regexFind "[a-z]+$" . -}}
{{ if not (regexMatch "^[0-9]+(s|m|h)$" .) }}{{ fail (printf "shutdown: '%s' is no whole number of s, m or h" .) }}{{ end -}}
{{ mul (trimSuffix $unit . | int) (get (dict "s" 1 "m" 60 "h" 3600) $unit) }}
{{- end -}}

{{- define "tiergate.grace" -}}
{{ $shutdown := (include "tiergate.config" . | fromYaml).shutdown | default dict -}}
{{ add .Values.preStop 30
  (include "tiergate.seconds" ($shutdown.delay | default "5s"))
  (include "tiergate.seconds" ($shutdown.drain | default "10m")) }}
{{- end -}}

{{- define "tiergate.user" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
{{- end -}}

{{- define "tiergate.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "tiergate.skips" -}}
checkov.io/skip1: CKV_K8S_43=The digest is that of the registry which the image is pushed to, so it is written where it is installed
checkov.io/skip2: CKV_K8S_15=A tag is one version and never moves, so a node that has it need not ask a registry that may be away
{{- end -}}
