#!/usr/bin/env bash
# What the image runs: any command as it is, and `executor`, by which Spark's Kubernetes master starts the
# executors of a job. Spark says what they are by environment variables, and wants this class to be run.
set -euo pipefail

if [ "${1:-}" != executor ]; then
    exec "$@"
fi

options=()
while IFS= read -r name; do
    options+=("${!name}")
done < <(compgen -e | grep '^SPARK_JAVA_OPT_' | sort --version-sort)

classpath="${SPARK_HOME}/jars/*"
[ -z "${SPARK_CONF_DIR:-}" ] || classpath="${SPARK_CONF_DIR}:${classpath}"
[ -z "${SPARK_EXTRA_CLASSPATH:-}" ] || classpath="${classpath}:${SPARK_EXTRA_CLASSPATH}"

exec java ${options[@]+"${options[@]}"} \
    "-Xms${SPARK_EXECUTOR_MEMORY}" "-Xmx${SPARK_EXECUTOR_MEMORY}" -cp "${classpath}" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "${SPARK_DRIVER_URL}" \
    --executor-id "${SPARK_EXECUTOR_ID}" \
    --cores "${SPARK_EXECUTOR_CORES}" \
    --app-id "${SPARK_APPLICATION_ID}" \
    --hostname "${SPARK_EXECUTOR_POD_IP}" \
    --resourceProfileId "${SPARK_RESOURCE_PROFILE_ID}" \
    --podName "${SPARK_EXECUTOR_POD_NAME}"
