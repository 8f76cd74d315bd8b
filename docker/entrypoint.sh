#!/bin/sh
# `serve` and every other command of quadrill; `spark-master` and `spark-worker URL` run Spark's own daemons
# in the foreground.
set -eu
spark_class() {
  home=$(python -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')
  export SPARK_HOME="$home" PYSPARK_PYTHON=/venv/bin/python
  exec "$home/bin/spark-class" "$@"
}
case "${1:-serve}" in
  spark-master)
    spark_class org.apache.spark.deploy.master.Master --host 0.0.0.0 --port 7077 --webui-port 8080 ;;
  spark-worker)
    spark_class org.apache.spark.deploy.worker.Worker --work-dir /tmp/spark-work "${2:-spark://spark-master:7077}" ;;
  *)
    exec quadrill "$@" ;;
esac
