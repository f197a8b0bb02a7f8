//! HiveServer2's calls: what is sent, and what is read of the responses.
//!
//! The names of the calls and structs, and the numbers of fields and values, are those of Hive's
//! interface (`service-rpc/if/TCLIService.thrift`), for version 6 of the protocol and later. Fields
//! that are not needed are not sent, and are ignored in responses, as Thrift permits.

use std::io::{Read, Write};

use crate::call::{FieldName, ResponseStruct, call};
use crate::error::{Fault, first_line};
use crate::stream::HiveStream;
use crate::tree::{Fields, Tree};
use crate::value::{self, Value};

const STATUS: FieldName = FieldName { id: 1, name: "the status" };
const STATUS_CODE: FieldName = FieldName { id: 1, name: "TStatus.statusCode" };
const STATUS_MESSAGE: FieldName = FieldName { id: 5, name: "TStatus.errorMessage" };
const SERVER_VERSION: FieldName =
    FieldName { id: 2, name: "TOpenSessionResp.serverProtocolVersion" };
const SESSION: FieldName = FieldName { id: 3, name: "TOpenSessionResp.sessionHandle" };
const OPERATION: FieldName = FieldName { id: 2, name: "TExecuteStatementResp.operationHandle" };
const HAS_ROWS: FieldName = FieldName { id: 3, name: "TOperationHandle.hasResultSet" };
const STATE: FieldName = FieldName { id: 2, name: "TGetOperationStatusResp.operationState" };
const STATE_MESSAGE: FieldName = FieldName { id: 5, name: "TGetOperationStatusResp.errorMessage" };
const RESULTS: FieldName = FieldName { id: 3, name: "TFetchResultsResp.results" };
const INFO: FieldName = FieldName { id: 2, name: "TGetInfoResp.infoValue" };
const INFO_TEXT: FieldName = FieldName { id: 1, name: "TGetInfoValue.stringValue" };

// Values of TProtocolVersion: the version minus one.
const VERSION_6: i32 = 5;
const VERSION_8: i32 = 7;
// Values of TStatusCode that are no failures.
const SUCCESS: i32 = 0;
const SUCCESS_WITH_INFO: i32 = 1;
const STILL_EXECUTING: i32 = 2;
// Values of TOperationState.
const INITIALIZED: i32 = 0;
const RUNNING: i32 = 1;
const FINISHED: i32 = 2;
const PENDING: i32 = 7;
/// The value of TFetchOrientation for the rows that follow.
const FETCH_NEXT: i32 = 0;

/// The value of TGetInfoType for the name of the product.
const DBMS_NAME: i32 = 17;

/// A session as the server knows it; it is sent back as it was received.
pub(crate) struct SessionHandle(Tree);

/// A statement as the server knows it.
pub(crate) struct StatementHandle {
    /// It is sent back as it was received.
    handle: Tree,
    /// Whether the statement has rows, possibly none.
    pub(crate) has_rows: bool,
}

/// How far a statement is.
#[derive(Debug, PartialEq)]
pub(crate) enum StatementState {
    Running,
    Finished,
    /// It failed or was cancelled, for this reason of the server's.
    Failed(String),
}

/// HiveServer2's service at the other end of a connection.
pub(crate) struct HiveService<S> {
    stream: HiveStream<S>,
    /// The number of the last message.
    sequence: i32,
}

impl<S: Read + Write> HiveService<S> {
    pub(crate) fn new(stream: HiveStream<S>) -> HiveService<S> {
        HiveService { stream, sequence: 0 }
    }

    fn call(&mut self, name: &'static str, request: Fields) -> Result<ResponseStruct, Fault> {
        self.sequence = self.sequence.wrapping_add(1);
        call(&mut self.stream, name, self.sequence, request)
    }

    /// Calls, and fails if the server's status is a failure.
    fn checked(&mut self, name: &'static str, request: Fields) -> Result<ResponseStruct, Fault> {
        let mut response = self.call(name, request)?;
        match failure(&mut response)? {
            None => Ok(response),
            Some(message) => Err(Fault::Call { call: name, message }),
        }
    }

    pub(crate) fn open_session(&mut self, user: Option<&str>) -> Result<SessionHandle, Fault> {
        // Version 8 is the first with which every server sends columns, and older ones answer
        // with their own.
        let mut request = vec![(1, Tree::I32(VERSION_8))];
        request.extend(user.map(|user| (2, Tree::text(user))));
        let mut response = self.checked("OpenSession", request)?;
        let version: i32 = response.required(SERVER_VERSION)?;
        if version < VERSION_6 {
            return Err(Fault::Old(version.saturating_add(1)));
        }
        Ok(SessionHandle(Tree::Struct(response.required(SESSION)?)))
    }

    pub(crate) fn close_session(&mut self, session: &SessionHandle) -> Result<(), Fault> {
        self.checked("CloseSession", vec![(1, session.0.clone())]).map(drop)
    }

    /// The name of the product, such as "Apache Hive" or "Spark SQL".
    pub(crate) fn product(&mut self, session: &SessionHandle) -> Result<String, Fault> {
        let request = vec![(1, session.0.clone()), (2, Tree::I32(DBMS_NAME))];
        let name: Vec<u8> = self.checked("GetInfo", request)?.part(INFO)?.required(INFO_TEXT)?;
        Ok(String::from_utf8_lossy(&name).into_owned())
    }

    /// Starts a statement, which then runs at the server.
    pub(crate) fn execute(
        &mut self,
        session: &SessionHandle,
        statement: &str,
    ) -> Result<StatementHandle, Fault> {
        let run_async = Tree::Bool(true);
        let request = vec![(1, session.0.clone()), (2, Tree::text(statement)), (4, run_async)];
        let mut response = self.call("ExecuteStatement", request)?;
        if let Some(message) = failure(&mut response)? {
            return Err(Fault::statement(message, statement));
        }
        let handle: Fields = response.required(OPERATION)?;
        let has_rows = ResponseStruct::new(response.call, handle.clone()).required(HAS_ROWS)?;
        Ok(StatementHandle { handle: Tree::Struct(handle), has_rows })
    }

    pub(crate) fn state(&mut self, statement: &StatementHandle) -> Result<StatementState, Fault> {
        let request = vec![(1, statement.handle.clone())];
        let mut response = self.checked("GetOperationStatus", request)?;
        let state: Option<i32> = response.optional(STATE)?;
        Ok(match state {
            Some(FINISHED) => StatementState::Finished,
            Some(INITIALIZED | PENDING | RUNNING) => StatementState::Running,
            other => StatementState::Failed(match response.optional(STATE_MESSAGE)? {
                Some(message) => words(message),
                None => format!("it ended in state {}", other.unwrap_or(-1)),
            }),
        })
    }

    /// The next rows, at most about `count`; none after the last.
    pub(crate) fn fetch(
        &mut self,
        statement: &StatementHandle,
        count: i64,
    ) -> Result<Vec<Vec<Value>>, Fault> {
        let orientation = Tree::I32(FETCH_NEXT);
        let request = vec![(1, statement.handle.clone()), (2, orientation), (3, Tree::I64(count))];
        let mut response = self.checked("FetchResults", request)?;
        match response.optional(RESULTS)? {
            Some(set) => value::rows(ResponseStruct::new(response.call, set)),
            None => Ok(Vec::new()),
        }
    }

    /// Cancels a statement. The server may say that it cannot be cancelled, for example because it
    /// has just ended.
    pub(crate) fn cancel(&mut self, statement: &StatementHandle) -> Result<(), Fault> {
        self.call("CancelOperation", vec![(1, statement.handle.clone())]).map(drop)
    }

    pub(crate) fn close(&mut self, statement: &StatementHandle) -> Result<(), Fault> {
        self.checked("CloseOperation", vec![(1, statement.handle.clone())]).map(drop)
    }
}

/// The server's words if the status of a response is a failure.
fn failure(response: &mut ResponseStruct) -> Result<Option<String>, Fault> {
    let mut status = response.part(STATUS)?;
    let code: i32 = status.required(STATUS_CODE)?;
    if matches!(code, SUCCESS | SUCCESS_WITH_INFO | STILL_EXECUTING) {
        return Ok(None);
    }
    let message: Option<Vec<u8>> = status.optional(STATUS_MESSAGE)?;
    Ok(Some(words(message.unwrap_or_default())))
}

fn words(message: Vec<u8>) -> String {
    first_line(&String::from_utf8_lossy(&message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::tests::reply;
    use crate::handshake::tests::Script;
    use crate::stream::Packing;

    const WRONG: &str = "the answer is not the expected Thrift message";

    fn service(name: &str, response: Fields) -> HiveService<Script> {
        HiveService::new(HiveStream::new(Script::new(reply(name, 1, response)), Packing::Bare))
    }

    fn status(code: i32) -> (i16, Tree) {
        (1, Tree::Struct(vec![(1, Tree::I32(code)), (5, Tree::text("no\n\tat java.lang"))]))
    }

    fn handle() -> Tree {
        Tree::Struct(vec![(1, Tree::text("guid and secret"))])
    }

    fn session() -> SessionHandle {
        SessionHandle(handle())
    }

    fn statement() -> StatementHandle {
        StatementHandle { handle: handle(), has_rows: true }
    }

    fn text<T>(result: Result<T, Fault>) -> String {
        result.map(drop).unwrap_err().to_string()
    }

    #[test]
    fn a_session_is_opened_with_the_version_of_the_server() {
        let open = |version: i32, user| {
            let response = vec![status(SUCCESS), (2, Tree::I32(version)), (3, handle())];
            let mut server = Script::new(reply("OpenSession", 1, response));
            let result =
                HiveService::new(HiveStream::new(&mut server, Packing::Bare)).open_session(user);
            (result, server.sent)
        };
        let (session, sent) = open(VERSION_6, Some("ada"));
        assert_eq!(session.unwrap().0, handle());
        let head = b"\x80\x01\0\x01\0\0\0\x0bOpenSession\0\0\0\x01";
        let request = b"\x0c\0\x01\x08\0\x01\0\0\0\x07\x0b\0\x02\0\0\0\x03ada\0\0";
        assert_eq!(sent, [&head[..], request].concat());
        let (old, sent) = open(VERSION_6 - 1, None);
        assert!(matches!(old, Err(Fault::Old(5))));
        assert_eq!(sent, [&head[..], b"\x0c\0\x01\x08\0\x01\0\0\0\x07\0\0"].concat());
    }

    #[test]
    fn a_statement_is_sent_with_its_session() {
        let operation = Tree::Struct(vec![(1, handle()), (2, Tree::I32(0)), (3, Tree::Bool(true))]);
        let response = vec![status(SUCCESS), (2, operation.clone())];
        let mut server = Script::new(reply("ExecuteStatement", 1, response));
        let mut service = HiveService::new(HiveStream::new(&mut server, Packing::Bare));
        let statement = service.execute(&session(), "SHOW").unwrap();
        assert!(statement.has_rows);
        assert_eq!(statement.handle, operation);
        let session = b"\x0c\0\x01\x0b\0\x01\0\0\0\x0fguid and secret\0";
        let request = [&b"\x0c\0\x01"[..], session, b"\x0b\0\x02\0\0\0\x04SHOW\x02\0\x04\x01\0\0"];
        assert!(server.sent.ends_with(&request.concat()));
    }

    #[test]
    fn the_product_is_a_text_in_a_union() {
        let value = Tree::Struct(vec![(1, Tree::text("Apache Hive"))]);
        let product = |response| service("GetInfo", response).product(&session());
        assert_eq!(product(vec![status(SUCCESS), (2, value)]).unwrap(), "Apache Hive");
        let missing = format!("{WRONG} (GetInfo: TGetInfoResp.infoValue is missing)");
        assert_eq!(text(product(vec![status(SUCCESS)])), missing);
    }

    #[test]
    fn rows_are_fetched_in_order() {
        let column = vec![(1, Tree::List(vec![Tree::I64(7)])), (2, Tree::text(""))];
        let column = Tree::Struct(vec![(5, Tree::Struct(column))]);
        let set = Tree::Struct(vec![(1, Tree::I64(0)), (3, Tree::List(vec![column]))]);
        let response = vec![status(SUCCESS_WITH_INFO), (2, Tree::Bool(false)), (3, set)];
        let rows = service("FetchResults", response).fetch(&statement(), 10).unwrap();
        assert_eq!(rows, [[Value::Int(7)]]);
        let none = service("FetchResults", vec![status(SUCCESS)]).fetch(&statement(), 10);
        assert_eq!(none.unwrap(), Vec::<Vec<Value>>::new());
    }

    #[test]
    fn a_statement_runs_until_its_state_is_another() {
        let state = |fields: Fields| {
            let response = [vec![status(SUCCESS)], fields].concat();
            service("GetOperationStatus", response).state(&statement()).unwrap()
        };
        let failed = |text: &str| StatementState::Failed(text.to_owned());
        for running in [INITIALIZED, PENDING, RUNNING] {
            assert_eq!(state(vec![(2, Tree::I32(running))]), StatementState::Running);
        }
        assert_eq!(state(vec![(2, Tree::I32(FINISHED))]), StatementState::Finished);
        assert_eq!(state(vec![(2, Tree::I32(3))]), failed("it ended in state 3"));
        assert_eq!(state(Vec::new()), failed("it ended in state -1"));
        let words = vec![(2, Tree::I32(5)), (5, Tree::text("no table\n\tat"))];
        assert_eq!(state(words), failed("no table"));
    }

    #[test]
    fn a_failure_has_the_words_of_the_server() {
        let closed = service("CloseSession", vec![status(3)]).close_session(&session());
        assert_eq!(text(closed), "CloseSession failed: no");
        let refused = service("ExecuteStatement", vec![status(3)]).execute(&session(), "SHOW x");
        assert_eq!(text(refused), "no\n  in: SHOW x");
        assert!(service("CancelOperation", vec![status(3)]).cancel(&statement()).is_ok());
        assert!(service("CloseOperation", vec![status(SUCCESS)]).close(&statement()).is_ok());
    }

    #[test]
    fn a_missing_field_and_a_field_of_another_type_are_named_with_their_call() {
        let open = |response| text(service("OpenSession", response).open_session(None));
        assert_eq!(open(Vec::new()), format!("{WRONG} (OpenSession: the status is missing)"));
        let named = |what: &str| format!("{WRONG} (OpenSession: {what})");
        let no_code = vec![(1, Tree::Struct(Vec::new()))];
        assert_eq!(open(no_code), named("TStatus.statusCode is missing"));
        let version = "TOpenSessionResp.serverProtocolVersion";
        assert_eq!(open(vec![status(SUCCESS)]), named(&format!("{version} is missing")));
        let other = vec![status(SUCCESS), (2, Tree::text("8"))];
        assert_eq!(open(other), named(&format!("{version} has type string instead of i32")));
        let no_handle = vec![status(SUCCESS), (2, Tree::I32(VERSION_8))];
        assert_eq!(open(no_handle), named("TOpenSessionResp.sessionHandle is missing"));
        let no_rows = vec![status(SUCCESS), (2, handle())];
        let executed = service("ExecuteStatement", no_rows).execute(&session(), "SHOW");
        let missing = "TOperationHandle.hasResultSet is missing";
        assert_eq!(text(executed), format!("{WRONG} (ExecuteStatement: {missing})"));
        let results = vec![status(SUCCESS), (3, Tree::Struct(vec![(3, Tree::I32(1))]))];
        let fetched = service("FetchResults", results).fetch(&statement(), 1);
        let other = "TRowSet.columns has type i32 instead of list";
        assert_eq!(text(fetched), format!("{WRONG} (FetchResults: {other})"));
    }
}
