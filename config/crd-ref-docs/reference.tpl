{{- define "gvList" -}}
<!-- Generated from api/v1alpha1 by config/generate.sh. DO NOT EDIT. -->

# BalancePolicy: every field
{{ range . }}
`apiVersion: {{ .GroupVersionString }}`. How to begin is in
[operator-install.md](operator-install.md), examples are in
[`examples/policies`](../examples/policies), and what a decision does with these
values is in [balance.md](balance.md).
{{ range .SortedTypes }}{{ template "type" . }}{{ end }}
{{- end }}
{{- end -}}

{{- define "rules" }}
{{- range . }}{{ .Message }}<br />{{ end }}
{{- end -}}

{{- define "bounds" }}
{{- range .Validation }}
{{- if hasPrefix "Required:" . }}required<br />
{{- else if not (hasPrefix "Optional:" .) }}{{ markdownRenderFieldDoc . }}<br />{{ end }}
{{- end }}
{{- template "rules" (index .Markers "kubebuilder:validation:XValidation") }}
{{- end -}}

{{- define "type" }}
{{- if markdownShouldRenderType . }}

## {{ .Name }}

{{ .Doc }}
{{ with index .Markers "kubebuilder:validation:XValidation" }}
{{ range . }}
- {{ .Message }}
{{- end }}
{{ end }}
{{- if .Members }}
| field | is | default | bounds |
| --- | --- | --- | --- |
{{ range .Members -}}
| `{{ .Name }}` _{{ markdownRenderType .Type }}_ | {{ if eq .Name "metadata" }}Name and namespace, as with every object.{{ else }}{{ markdownRenderFieldDoc .Doc }}{{ end }} | {{ with .Default }}{{ if ne . "{  }" }}`{{ . }}`{{ end }}{{ end }} | {{ template "bounds" . }} |
{{ end }}
{{- end }}
{{- if .EnumValues }}
| value | means |
| --- | --- |
{{ range .EnumValues -}}
| `{{ .Name }}` | {{ markdownRenderFieldDoc .Doc }} |
{{ end }}
{{- end }}
{{- end }}
{{- end -}}
