{{- define "swiftlet.labels" -}}
app.kubernetes.io/name: swiftlet
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "swiftlet.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "swiftlet.claim" -}}
{{ .Values.index.volume.claim | default (printf "%s-indexes" .Release.Name) }}
{{- end }}
