// The part of HiveServer2's service (TCLIService, protocol version 6 and later) that tachograph
// calls. Names and numbers are those of the protocol; calls, fields and values that are not used
// are left out, which Thrift permits: unknown fields are skipped. The service itself is left out
// too: src/call.rs makes a call from its name, its request and its response, and the server's half
// that would be generated needs threads. After a change, run scripts/hive-thrift.sh, which
// generates src/tcli.rs.

enum TProtocolVersion {
  V1 = 0, V6 = 5, V7 = 6, V8 = 7, V9 = 8, V10 = 9
}

enum TStatusCode {
  SUCCESS = 0, SUCCESS_WITH_INFO = 1, STILL_EXECUTING = 2, ERROR = 3, INVALID_HANDLE = 4
}

enum TOperationState {
  INITIALIZED = 0, RUNNING = 1, FINISHED = 2, CANCELED = 3, CLOSED = 4, ERROR = 5, UNKNOWN = 6,
  PENDING = 7, TIMEDOUT = 8
}

enum TOperationType { EXECUTE_STATEMENT = 0 }

enum TFetchOrientation { FETCH_NEXT = 0 }

struct TStatus {
  1: required TStatusCode statusCode
  2: optional list<string> infoMessages
  3: optional string sqlState
  4: optional i32 errorCode
  5: optional string errorMessage
}

struct THandleIdentifier {
  1: required binary guid
  2: required binary secret
}

struct TSessionHandle {
  1: required THandleIdentifier sessionId
}

struct TOperationHandle {
  1: required THandleIdentifier operationId
  2: required TOperationType operationType
  3: required bool hasResultSet
  4: optional double modifiedRowCount
}

struct TOpenSessionReq {
  1: required TProtocolVersion client_protocol
  2: optional string username
  3: optional string password
  4: optional map<string, string> configuration
}

struct TOpenSessionResp {
  1: required TStatus status
  2: required TProtocolVersion serverProtocolVersion
  3: optional TSessionHandle sessionHandle
}

struct TCloseSessionReq {
  1: required TSessionHandle sessionHandle
}

struct TCloseSessionResp {
  1: required TStatus status
}

struct TExecuteStatementReq {
  1: required TSessionHandle sessionHandle
  2: required string statement
  3: optional map<string, string> confOverlay
  4: optional bool runAsync
}

struct TExecuteStatementResp {
  1: required TStatus status
  2: optional TOperationHandle operationHandle
}

struct TGetOperationStatusReq {
  1: required TOperationHandle operationHandle
}

struct TGetOperationStatusResp {
  1: required TStatus status
  2: optional TOperationState operationState
  3: optional string sqlState
  4: optional i32 errorCode
  5: optional string errorMessage
}

struct TCancelOperationReq {
  1: required TOperationHandle operationHandle
}

struct TCancelOperationResp {
  1: required TStatus status
}

struct TCloseOperationReq {
  1: required TOperationHandle operationHandle
}

struct TCloseOperationResp {
  1: required TStatus status
}

struct TFetchResultsReq {
  1: required TOperationHandle operationHandle
  2: required TFetchOrientation orientation
  3: required i64 maxRows
}

// In each column, bit i of nulls (of byte i / 8, from the least significant) says that row i is
// NULL; missing bytes mean that no further row is.
struct TBoolColumn { 1: required list<bool> values, 2: required binary nulls }
struct TByteColumn { 1: required list<i8> values, 2: required binary nulls }
struct TI16Column { 1: required list<i16> values, 2: required binary nulls }
struct TI32Column { 1: required list<i32> values, 2: required binary nulls }
struct TI64Column { 1: required list<i64> values, 2: required binary nulls }
struct TDoubleColumn { 1: required list<double> values, 2: required binary nulls }
struct TStringColumn { 1: required list<string> values, 2: required binary nulls }
struct TBinaryColumn { 1: required list<binary> values, 2: required binary nulls }

union TColumn {
  1: TBoolColumn boolVal
  2: TByteColumn byteVal
  3: TI16Column i16Val
  4: TI32Column i32Val
  5: TI64Column i64Val
  6: TDoubleColumn doubleVal
  7: TStringColumn stringVal
  8: TBinaryColumn binaryVal
}

// The field rows, of protocol versions up to 5, is skipped.
struct TRowSet {
  1: required i64 startRowOffset
  3: optional list<TColumn> columns
}

struct TFetchResultsResp {
  1: required TStatus status
  2: optional bool hasMoreRows
  3: optional TRowSet results
}
