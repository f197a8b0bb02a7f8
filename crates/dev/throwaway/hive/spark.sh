# A Spark cluster for tests: a master, two workers and the Thrift server (HiveServer2's protocol),
# until standard input ends; then all of them are stopped and the folder is removed.
#
# usage: sh spark.sh FOLDER SPARK_HOME MASTER_PORT THRIFT_PORT [OPTIONS OF THE THRIFT SERVER]
# SPARK_TEST_JAVA has options of Java for a server with Kerberos.
dir=$1 home=$2 master=$3 port=$4
shift 4
mkdir -p "$dir/conf" "$dir/local" "$dir/work" "$dir/warehouse"
cat >"$dir/conf/hive-site.xml" <<EOF
<configuration>
  <property><name>javax.jdo.option.ConnectionURL</name>
    <value>jdbc:derby:;databaseName=$dir/metastore;create=true</value></property>
</configuration>
EOF
# Hadoop logs in by Kerberos if the Thrift server does.
[ -z "$SPARK_TEST_JAVA" ] || cat >"$dir/conf/core-site.xml" <<EOF
<configuration>
  <property><name>hadoop.security.authentication</name><value>kerberos</value></property>
</configuration>
EOF
export SPARK_HOME="$home" SPARK_CONF_DIR="$dir/conf" SPARK_LOCAL_IP=127.0.0.1
export SPARK_LOCAL_DIRS="$dir/local" SPARK_DAEMON_MEMORY=256m
java="-Djava.io.tmpdir=$dir/local -XX:-UsePerfData $SPARK_TEST_JAVA"
export SPARK_DAEMON_JAVA_OPTS="$java"
processes=

run() {
    name=$1
    shift
    "$@" >"$dir/$name.log" 2>&1 </dev/null &
    processes="$processes $!"
}

worker="org.apache.spark.deploy.worker.Worker --host 127.0.0.1 --cores 1 --memory 768m"
cd "$dir" || exit 1
run master "$home/bin/spark-class" org.apache.spark.deploy.master.Master \
    --host 127.0.0.1 --port "$master" --webui-port 0
for name in worker-1 worker-2; do
    run "$name" "$home/bin/spark-class" $worker --webui-port 0 --work-dir "$dir/work/$name" \
        "spark://127.0.0.1:$master"
done
# The launcher takes the server for a daemon, whatever --driver-memory says.
SPARK_DAEMON_MEMORY=1g
run thrift "$home/bin/spark-submit" --master "spark://127.0.0.1:$master" \
    --class org.apache.spark.sql.hive.thriftserver.HiveThriftServer2 \
    --executor-memory 640m --executor-cores 1 --driver-java-options "$java" \
    --conf "spark.executor.extraJavaOptions=-XX:-UsePerfData" \
    --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=2 \
    --conf spark.driver.host=127.0.0.1 --conf "spark.sql.warehouse.dir=$dir/warehouse" \
    spark-internal --hiveconf hive.server2.thrift.bind.host=127.0.0.1 \
    --hiveconf "hive.server2.thrift.port=$port" "$@"
read -r word
kill $processes
wait
rm -rf "$dir"
