#!/bin/sh
# `serve` and every other command of quadrill; `spark-master` and `spark-worker URL` run Spark's own daemons
# in the foreground. Where the secret /run/secrets/spark_secret is mounted, every part of the cluster asks for
# it (spark.authenticate) and what they say to each other is encrypted.
set -eu
secret=${SPARK_SECRET_FILE:-/run/secrets/spark_secret}
if [ -s "$secret" ]; then
  SPARK_CONF_DIR=$(mktemp -d)
  export SPARK_CONF_DIR
  umask 077
  {
    echo "spark.authenticate true"
    echo "spark.network.crypto.enabled true"
    printf 'spark.authenticate.secret %s\n' "$(cat "$secret")"
  } >"$SPARK_CONF_DIR/spark-defaults.conf"
fi
spark_class() {
  home=$(python -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')
  export SPARK_HOME="$home" PYSPARK_PYTHON="${PYSPARK_PYTHON:-/venv/bin/python}"
  exec "$home/bin/spark-class" "$@"
}
case "${1:-serve}" in
  spark-master)
    spark_class org.apache.spark.deploy.master.Master --host "${SPARK_MASTER_HOST:-0.0.0.0}" --port 7077 --webui-port 8080 ;;
  spark-worker)
    spark_class org.apache.spark.deploy.worker.Worker --work-dir /tmp/spark-work "${2:-spark://spark-master:7077}" ;;
  *)
    exec quadrill "$@" ;;
esac
