{{/*
Rules come from files/role.yaml, which is generated, and from nowhere else.

taper.rules: the rules of the ClusterRole there, in three parts: "operator" without
Secrets, "secrets" alone, and "nodes", which no RoleBinding can grant, alone.
*/}}
{{- define "taper.rules" -}}
{{- $parts := dict "operator" list "secrets" list "nodes" list "leader" list }}
{{- range regexSplit "(?m)^---$" (.Files.Get "files/role.yaml") -1 }}
{{- $role := fromYaml . }}
{{- range $role.rules }}
{{- $part := "operator" }}
{{- if eq $role.kind "Role" }}{{ $part = "leader" }}{{ else if has "secrets" .resources }}{{ $part = "secrets" }}{{ end }}
{{- $_ := set $parts $part (append (get $parts $part) .) }}
{{- if has "nodes" .resources }}
{{- $_ := set $parts "nodes" (append $parts.nodes (dict "apiGroups" .apiGroups "resources" (list "nodes") "verbs" .verbs)) }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml $parts }}
{{- end }}

{{/*
taper.grant: a ClusterRole .name with .rules, bound to .serviceAccount everywhere, or
in .namespaces if there are any. .annotations are of all its objects.
*/}}
{{- define "taper.grant" -}}
{{- $grant := . }}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .name }}
  labels:
    {{- include "taper.labels" .root | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
rules:
  {{- toYaml .rules | nindent 2 }}
{{- range .namespaces | default (list "") }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ if . }}RoleBinding{{ else }}ClusterRoleBinding{{ end }}
metadata:
  name: {{ $grant.name }}
  {{- with . }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "taper.labels" $grant.root | nindent 4 }}
  {{- with $grant.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $grant.name }}
subjects:
  - kind: ServiceAccount
    name: {{ $grant.serviceAccount }}
    namespace: {{ $grant.root.Release.Namespace }}
{{- end }}
{{- end }}

{{/*
taper.access: all that .serviceAccount needs to act as the operator, but for Secrets,
under names that begin with .name.
*/}}
{{- define "taper.access" -}}
{{- $rules := fromYaml (include "taper.rules" .root) }}
{{- $namespaces := .root.Values.namespaces }}
{{ include "taper.grant" (merge (dict "rules" $rules.operator "namespaces" $namespaces) .) }}
{{- if $namespaces }}
---
{{ include "taper.grant" (merge (dict "name" (printf "%s-nodes" .name) "rules" $rules.nodes) .) }}
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .name }}-leader
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "taper.labels" .root | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
rules:
  {{- toYaml $rules.leader | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .name }}-leader
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "taper.labels" .root | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .name }}-leader
subjects:
  - kind: ServiceAccount
    name: {{ .serviceAccount }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}
