{{- define "rheos.pod" -}}
serviceAccountName: {{ .Release.Name }}
# 0 is the driver's: a job that has finished, or was stopped, is done; one that has failed is started again.
restartPolicy: OnFailure
# On SIGTERM the driver takes a checkpoint, for at most 20 s (termination_grace), and then ends.
terminationGracePeriodSeconds: 30
# The dashboard knows the driver by its process id.
shareProcessNamespace: true
securityContext: { runAsNonRoot: true, runAsUser: 185, runAsGroup: 0, fsGroup: 0 }
{{- if not .Values.untilNow }}
initContainers:
  # Beside the driver for as long as that runs, and on loopback: `kubectl port-forward` reaches it there.
  - name: dashboard
    restartPolicy: Always
    image: {{ .Values.image }}
    imagePullPolicy: {{ .Values.imagePullPolicy }}
    args: [rheos, dashboard, --port=8484]
    livenessProbe:
      exec: { command: {{ include "rheos.probe" "healthz" }} }
      initialDelaySeconds: 10
      periodSeconds: 15
      timeoutSeconds: 5
      failureThreshold: 4
    readinessProbe:
      exec: { command: {{ include "rheos.probe" "readyz" }} }
      periodSeconds: 10
      timeoutSeconds: 5
    securityContext: { allowPrivilegeEscalation: false }
    volumeMounts: {{ include "rheos.mounts" . }}
{{- end }}
containers:
  - name: driver
    image: {{ .Values.image }}
    imagePullPolicy: {{ .Values.imagePullPolicy }}
    args:
      - rheos
      - run
      - {{ .Values.job }}
      - --config=/etc/rheos/job.toml
      - --master=k8s://https://kubernetes.default.svc
      - --log-json
      {{- if .Values.untilNow }}
      - --until=now
      {{- end }}
    env:
      - { name: SPARK_CONF_DIR, value: /etc/rheos/spark }
      - { name: SPARK_DRIVER_MEMORY, value: {{ quote .Values.driverMemory }} }
      - { name: POD_IP, valueFrom: { fieldRef: { fieldPath: status.podIP } } }
      - { name: POD_NAME, valueFrom: { fieldRef: { fieldPath: metadata.name } } }
      # Executors reach the driver at its address, and go with its pod.
      - name: PYSPARK_SUBMIT_ARGS
        value: >-
          --conf spark.driver.host=$(POD_IP)
          --conf spark.kubernetes.driver.pod.name=$(POD_NAME)
          pyspark-shell
    envFrom: {{ include "rheos.secrets" . }}
    {{- if not .Values.untilNow }}
    # Three minutes without an answer or a step of the driver. The next one resumes the job.
    livenessProbe:
      exec: { command: {{ include "rheos.live" . }} }
      initialDelaySeconds: 60
      periodSeconds: 30
      timeoutSeconds: 5
      failureThreshold: 6
    {{- end }}
    resources: {{ toJson .Values.driverResources }}
    securityContext: { allowPrivilegeEscalation: false }
    volumeMounts: {{ include "rheos.mounts" . }}
volumes:
  - name: settings
    configMap:
      name: {{ .Release.Name }}
      items:
        - { key: job.toml, path: job.toml }
        - { key: spark-defaults.conf, path: spark/spark-defaults.conf }
        - { key: executor.yaml, path: spark/executor.yaml }
  - { name: home, emptyDir: {} }
  - { name: tmp, emptyDir: {} }
{{- end }}

{{- define "rheos.mounts" -}}
[{ name: settings, mountPath: /etc/rheos }, { name: home, mountPath: /var/lib/rheos }, { name: tmp, mountPath: /tmp }]
{{- end }}

{{- define "rheos.secrets" -}}
[{{ range $n, $name := .Values.secrets }}{{ if $n }}, {{ end }}{ secretRef: { name: {{ $name }} } }{{ end }}]
{{- end }}

{{- /* If the dashboard does not answer, its own probe restarts it, and the driver continues. */ -}}
{{- define "rheos.live" -}}
[python3, -c, "import urllib.error as e, urllib.request as r\ntry: r.urlopen('http://127.0.0.1:8484/livez', timeout=4)\nexcept e.HTTPError: raise\nexcept OSError: pass"]
{{- end }}

{{- define "rheos.probe" -}}
[python3, -c, "import urllib.request as r; r.urlopen('http://127.0.0.1:8484/{{ . }}', timeout=4)"]
{{- end }}
