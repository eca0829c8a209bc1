#!/usr/bin/env bash
# What runs in the image: `executor` is an executor of Spark's, as Spark's own image starts it; anything else is a command of tidegate.
set -euo pipefail

if [ "${1:-}" != executor ]; then
  exec tidegate "$@"
fi

jars=$(python -c "import os, pyspark; print(os.path.dirname(pyspark.__file__) + '/jars/*')")
options=()
while IFS= read -r name; do # SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, ...: Spark gives each option in a variable of its own
  options+=("${!name}")
done < <(compgen -e | grep '^SPARK_JAVA_OPT_' | sort -V)

exec java "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
  -cp "${SPARK_EXTRA_CLASSPATH:+$SPARK_EXTRA_CLASSPATH:}$jars" \
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
  --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
  --podName "$SPARK_EXECUTOR_POD_NAME"
