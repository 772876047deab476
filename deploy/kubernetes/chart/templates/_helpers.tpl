{{- /* SPDX-License-Identifier: Apache-2.0 */}}
{{- define "penstock.selector" -}}
app.kubernetes.io/name: penstock
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "penstock.metadata" -}}
name: {{ .root.Release.Name }}-{{ .component }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "penstock.selector" . | nindent 2 }}
{{- end }}

{{- define "penstock.image" -}}
image: {{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- /* Memory holds the ring, twice. Whole CPUs can be the pod's own. */}}
{{- define "penstock.device" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL], add: [IPC_LOCK]}
  seccompProfile: {type: RuntimeDefault}
resources:
  requests: {cpu: {{ .Values.device.cpu | quote }}, memory: {{ .Values.device.memory }}}
  limits:
    cpu: {{ .Values.device.cpu | quote }}
    memory: {{ .Values.device.memory }}
    {{ .Values.device.gpu.resource }}: {{ .Values.device.gpu.count }}
    {{ .Values.device.rdma.resource }}: {{ .Values.device.rdma.count }}
{{- end }}

{{- /* If the doctor finds that a step is missing, the pod ends before it sends anything. */}}
{{- define "penstock.initContainer" -}}
- name: gpudirect
  {{- include "penstock.image" . | nindent 2 }}
  args: [doctor, --for, /config/stream.yaml]
  {{- include "penstock.device" . | nindent 2 }}
  volumeMounts:
    - {name: config, mountPath: /config, readOnly: true}
{{- end }}

{{- /* Hooks of one event are made by weight. */}}
{{- define "penstock.hook" -}}
{{- $event := get (dict "test" "test" "install" "pre-install,pre-upgrade") .root.Values.verify.hook }}
{{- with $event -}}
annotations:
  helm.sh/hook: {{ . }}
  helm.sh/hook-weight: {{ $.weight | quote }}
  helm.sh/hook-delete-policy: before-hook-creation
{{- end }}
{{- end }}
