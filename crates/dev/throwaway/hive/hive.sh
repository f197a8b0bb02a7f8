# An Apache HiveServer2 for tests, with its metastore (Derby) and MapReduce in its process, until
# standard input ends; then it is stopped and the folder is removed. With a keystore it speaks TLS.
#
# usage: sh hive.sh FOLDER LIBRARIES PORT HTTP_PORT [KEYSTORE PASSWORD]
dir=$1 libraries=$2 port=$3 http_port=$4 keystore=${5:-} password=${6:-}
mkdir -p "$dir/conf" "$dir/scratch" "$dir/tmp" "$dir/warehouse"
{
    echo '<configuration>'
    for property in \
        "javax.jdo.option.ConnectionURL=jdbc:derby:;databaseName=$dir/metastore;create=true" \
        javax.jdo.option.ConnectionDriverName=org.apache.derby.jdbc.EmbeddedDriver \
        datanucleus.schema.autoCreateAll=true \
        hive.metastore.schema.verification=false \
        hive.metastore.event.db.notification.api.auth=false \
        "hive.metastore.warehouse.dir=file://$dir/warehouse" \
        "hive.metastore.warehouse.external.dir=file://$dir/warehouse" \
        hive.server2.thrift.bind.host=127.0.0.1 \
        "hive.server2.thrift.port=$port" \
        hive.server2.transport.mode=all \
        "hive.server2.thrift.http.port=$http_port" \
        "hive.server2.use.SSL=$([ -n "$keystore" ] && echo true || echo false)" \
        "hive.server2.keystore.path=$keystore" \
        "hive.server2.keystore.password=$password" \
        hive.server2.webui.port=0 \
        hive.server2.enable.doAs=false \
        hive.server2.tez.initialize.default.sessions=false \
        hive.server2.logging.operation.enabled=false \
        hive.server2.materializedviews.registry.impl=DUMMY \
        hive.execution.engine=mr \
        hive.exec.mode.local.auto=true \
        hive.exec.submit.local.task.via.child=false \
        "hive.exec.scratchdir=$dir/scratch" \
        "hive.exec.local.scratchdir=$dir/tmp" \
        hive.support.concurrency=false \
        hive.txn.manager=org.apache.hadoop.hive.ql.lockmgr.DummyTxnManager \
        hive.notification.event.poll.interval=0 \
        hive.scheduled.queries.executor.enabled=false \
        hive.metastore.housekeeping.threads.on=false \
        hive.compactor.initiator.on=false \
        hive.stats.autogather=false \
        mapreduce.framework.name=local \
        "hadoop.tmp.dir=$dir/tmp" \
        fs.defaultFS=file:///
    do
        echo "<property><name>${property%%=*}</name><value>${property#*=}</value></property>"
    done
    echo '</configuration>'
} >"$dir/conf/hive-site.xml"
opens=
for package in lang lang.reflect util util.concurrent util.concurrent.atomic util.regex net nio io \
    time text math security; do
    opens="$opens --add-opens=java.base/java.$package=ALL-UNNAMED"
done
opens="$opens --add-opens=java.base/sun.nio.ch=ALL-UNNAMED"
opens="$opens --add-opens=java.base/sun.nio.cs=ALL-UNNAMED --add-opens=java.sql/java.sql=ALL-UNNAMED"
cd "$dir" || exit 1
# shellcheck disable=SC2086
java -Xmx2g -XX:-UsePerfData $opens -Djava.io.tmpdir="$dir/tmp" \
    -Dderby.stream.error.file="$dir/derby.log" -cp "$dir/conf:$libraries/*" \
    org.apache.hive.service.server.HiveServer2 >"$dir/hive.log" 2>&1 </dev/null &
server=$!
read -r word
kill "$server"
wait
rm -rf "$dir"
