//! Asking a server what its services are, before it is loaded: their descriptors encode the messages of
//! its calls.

use drive::{Fault, GrpcFault, LearnedResponse, Life};
use grpc::GrpcError;
use grpc::reflection::{Inquiry, METHODS, Question};
use spec::{
    CallBodies, Calls, Check, Exchange, Expect, HttpRequest, Load, PathRequest, RequestKind,
};

/// The load with messages in the place of JSON; `None` if it has no JSON to be encoded. `origin` is the
/// server; `ask` opens a session, learns its responses, and closes it.
pub(crate) fn encoded<E: From<GrpcError>>(
    load: &Load,
    origin: &str,
    ask: &mut dyn FnMut(&Load) -> Result<Option<LearnedResponse>, E>,
) -> Result<Option<Load>, E> {
    if load.grpc.as_ref().is_none_or(|calls| calls.bodies != CallBodies::Json) {
        return Ok(None);
    }
    let mut inquiry = Inquiry::new(origin, grpc::services(load));
    let mut methods = METHODS.iter();
    let none = || GrpcError::NoReflection { origin: origin.to_owned() };
    let mut method = methods.next().ok_or_else(none)?;
    loop {
        let questions = inquiry.questions();
        if questions.is_empty() {
            return Ok(Some(grpc::encode(load, &inquiry.into_schema())?));
        }
        let Some(learned) = ask(&asking(load, method, &questions))? else {
            method = methods.next().ok_or_else(none)?;
            continue;
        };
        let answers = match learned.kinds.as_slice() {
            [] => std::slice::from_ref(&learned),
            several => several,
        };
        for (question, answer) in questions.iter().zip(answers) {
            inquiry.answer(question, answer.body.as_deref().unwrap_or_default())?;
        }
    }
}

/// What a session has learned that asked; `None` if the server does not implement the method.
pub(crate) fn reply<E: From<GrpcError>>(
    learned: Result<LearnedResponse, E>,
    life: &Life,
    origin: &str,
) -> Result<Option<LearnedResponse>, E> {
    let unimplemented = Fault::Grpc(GrpcFault::Status(12)).kind();
    match life.errors.keys().next() {
        Some(_) if life.errors.contains_key(&unimplemented) => Ok(None),
        // A probe without a response ends the session at once, with an error that says what to do.
        Some(why) if learned.is_err() && life.counts.sent > 1 => {
            let (origin, why) = (origin.to_owned(), why.clone());
            Err(GrpcError::BadReflection { origin, why }.into())
        }
        _ => learned.map(Some),
    }
}

/// A load of questions, over the connections and with the headers of another one.
fn asking(load: &Load, method: &str, questions: &[Question]) -> Load {
    let headers = match &load.exchange {
        Exchange::Http(request) => request.headers.clone(),
        _ => Vec::new(),
    };
    let kind = |question: &Question| {
        let body = spec::framed(&question.message());
        let request = HttpRequest::call(headers.clone(), body, load.timeout);
        RequestKind {
            name: format!("{question:?}"),
            weight: 1,
            requests: vec![PathRequest { path: format!("/{method}"), request }],
            expect: Expect { status: Some(200), check: Some(Check::Body), ..Expect::default() },
            keep: Vec::new(),
        }
    };
    Load {
        kinds: questions.iter().map(kind).collect(),
        grpc: Some(Calls { method: None, bodies: CallBodies::Encoded }),
        events: false,
        ..load.clone()
    }
}
