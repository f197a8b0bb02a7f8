//! Configurations of Graphite's daemons.

use std::path::Path;

/// The configuration of carbon-cache without its limits on updates and new files, with sparse files; in
/// the folder are also the schemas and aggregation of its files, `data` and its log.
pub(crate) fn carbon_config(folder: &Path, port: u16) -> String {
    let folder = folder.display();
    format!(
        "[cache]\nSTORAGE_DIR = {folder}\nCONF_DIR = {folder}\nLOG_DIR = {folder}\n\
         PID_DIR = {folder}\nLOCAL_DATA_DIR = {folder}/data\nUSER =\n\
         LINE_RECEIVER_INTERFACE = 127.0.0.1\nLINE_RECEIVER_PORT = {port}\n\
         ENABLE_UDP_LISTENER = False\nPICKLE_RECEIVER_PORT = 0\nCACHE_QUERY_PORT = 0\n\
         MAX_CACHE_SIZE = inf\nMAX_UPDATES_PER_SECOND = inf\nMAX_CREATES_PER_MINUTE = inf\n\
         WHISPER_SPARSE_CREATE = True\nCARBON_METRIC_INTERVAL = 0\nLOG_UPDATES = False\n\
         LOG_CREATES = False\nENABLE_TAGS = False\n"
    )
}

/// The same of go-carbon.
pub(crate) fn go_carbon_config(folder: &Path, port: u16) -> String {
    let folder = folder.display();
    format!(
        "[common]\nuser = \"\"\nmax-cpu = 2\n\
         [whisper]\ndata-dir = \"{folder}/data\"\n\
         schemas-file = \"{folder}/storage-schemas.conf\"\nsparse-create = true\n\
         aggregation-file = \"{folder}/storage-aggregation.conf\"\n\
         [cache]\nmax-size = 0\n[tcp]\nlisten = \"127.0.0.1:{port}\"\nenabled = true\n\
         [udp]\nenabled = false\n[pickle]\nenabled = false\n[carbonlink]\nenabled = false\n\
         [grpc]\nenabled = false\n[dump]\nenabled = true\npath = \"{folder}\"\n[[logging]]\nlogger = \"\"\nfile = \"{folder}/log\"\n"
    )
}
