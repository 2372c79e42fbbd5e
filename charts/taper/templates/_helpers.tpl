{{- define "taper.name" -}}
{{ .Values.nameOverride }}
{{- end }}

{{- define "taper.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "taper.name" .) }}
{{- end }}

{{- define "taper.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* What all pods of the release have, the hook's too. */}}
{{- define "taper.instance" -}}
app.kubernetes.io/name: taper
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The operator's pods alone. */}}
{{- define "taper.selector" -}}
{{ include "taper.instance" . }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "taper.labels" -}}
{{ include "taper.instance" . }}
app.kubernetes.io/part-of: taper
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* Nine tenths of the memory limit, for GOMEMLIMIT; its unit is in the schema. */}}
{{- define "taper.memoryLimit" -}}
{{- $limit := .Values.resources.limits.memory }}
{{- $number := trimSuffix "Mi" (trimSuffix "Gi" $limit) | int64 }}
{{- if hasSuffix "Gi" $limit }}{{ $number = mul $number 1024 }}{{ end -}}
{{ div (mul $number 9) 10 }}MiB
{{- end }}

{{/* What the operator looks at, and how things are called: the release Job needs the same. */}}
{{- define "taper.scopeArgs" -}}
- --cluster-domain={{ .Values.clusterDomain }}
- --leader-election-namespace={{ .Release.Namespace }}
- --log-level={{ .Values.log.level }}
- --log-format={{ .Values.log.format }}
{{- with .Values.namespaces }}
- --namespaces={{ join "," . }}
{{- end }}
{{- with .Values.network }}
- --network={{ . }}
{{- end }}
{{- if .Values.dualStack }}
- --dual-stack
{{- end }}
{{- end }}

{{/* Where the image comes from and what it may take, for the operator and the Job. */}}
{{- define "taper.container" -}}
image: {{ include "taper.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
  - name: GOMEMLIMIT
    value: {{ include "taper.memoryLimit" . }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{- define "taper.pod" -}}
automountServiceAccountToken: true
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
# What PodSecurity calls restricted, with the container's own.
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- end }}
