//! Questions about a server's services, and what its answers mean (gRPC server reflection, `v1` and
//! `v1alpha`, whose messages are equal: `grpc/reflection/v1/reflection.proto`).

use std::collections::BTreeSet;

use crate::descriptor::FileDescriptor;
use crate::error::{GrpcError, hint};
use crate::schema::Schema;
use crate::wire;

/// The methods that answer questions: the current one, and that of older servers.
pub const METHODS: [&str; 2] = [
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// A question to the server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// The file of this name.
    File(String),
    /// The file that defines this service.
    Service(String),
    /// The names of all services.
    Services,
}

impl Question {
    /// It as a `ServerReflectionRequest`.
    pub fn message(&self) -> Vec<u8> {
        let (number, text) = match self {
            Question::File(name) => (3, name.as_str()),
            Question::Service(name) => (4, name.as_str()),
            Question::Services => (7, ""),
        };
        let mut out = Vec::new();
        wire::write_bytes(&mut out, number, text.as_bytes());
        out
    }
}

/// What a server has said about its services, and what is still to be asked.
#[derive(Clone, Debug)]
pub struct Inquiry {
    origin: String,
    services: BTreeSet<String>,
    schema: Schema,
    asked: BTreeSet<Question>,
    /// The service that the server does not know, once it has said so.
    unknown: Option<String>,
}

impl Inquiry {
    /// About these services of a server, whose name begins sentences.
    pub fn new(origin: &str, services: BTreeSet<String>) -> Inquiry {
        Inquiry {
            origin: origin.to_owned(),
            services,
            schema: Schema::empty(origin),
            asked: BTreeSet::new(),
            unknown: None,
        }
    }

    /// The next questions; none once everything is known that can be asked.
    pub fn questions(&self) -> Vec<Question> {
        if self.unknown.is_some() {
            return vec![Question::Services];
        }
        let services = self.services.iter().filter(|name| !self.schema.has_service(name));
        let files = self.schema.missing().into_iter().map(Question::File);
        let all = services.cloned().map(Question::Service).chain(files);
        all.filter(|question| !self.asked.contains(question)).collect()
    }

    /// What the answers have described.
    pub fn into_schema(self) -> Schema {
        self.schema
    }

    /// Takes the answer to a question, a `ServerReflectionResponse`.
    ///
    /// # Errors
    /// If it is not a reply of reflection, or the server does not know the service.
    pub fn answer(&mut self, question: &Question, answer: &[u8]) -> Result<(), GrpcError> {
        self.asked.insert(question.clone());
        let bad = |why: &str| GrpcError::BadReflection {
            origin: self.origin.clone(),
            why: why.to_owned(),
        };
        let reply =
            ReflectionReply::read(answer).ok_or_else(|| bad("its answer cannot be read"))?;
        if let Some(service) = &self.unknown {
            let known = reply.services.iter().map(String::as_str);
            return Err(GrpcError::NoService {
                origin: self.origin.clone(),
                service: service.clone(),
                hint: hint(service, known),
            });
        }
        match (question, reply.error) {
            (Question::Service(name), Some(_)) => self.unknown = Some(name.clone()),
            // What lacks only matters if a message uses it.
            (Question::File(_), Some(_)) => {}
            (Question::Services, Some(why)) => return Err(bad(&why)),
            (_, None) => reply.files.into_iter().for_each(|file| self.schema.add(file)),
        }
        Ok(())
    }
}

/// What is read of a `ServerReflectionResponse`.
#[derive(Debug, Default)]
struct ReflectionReply {
    files: Vec<FileDescriptor>,
    services: Vec<String>,
    error: Option<String>,
}

impl ReflectionReply {
    fn read(bytes: &[u8]) -> Option<ReflectionReply> {
        let mut reply = ReflectionReply::default();
        wire::read(bytes, |number, value| {
            match number {
                4 => wire::read(value.bytes()?, |number, value| {
                    if number == 1 {
                        reply.files.push(FileDescriptor::read(value.bytes()?)?);
                    }
                    Some(())
                })?,
                6 => wire::read(value.bytes()?, |number, value| {
                    if number == 1 {
                        wire::read(value.bytes()?, |number, value| {
                            if number == 1 {
                                reply.services.push(value.text()?);
                            }
                            Some(())
                        })?;
                    }
                    Some(())
                })?,
                7 => {
                    let error = reply.error.insert(String::new());
                    wire::read(value.bytes()?, |number, value| {
                        if number == 2 {
                            *error = value.text()?;
                        }
                        Some(())
                    })?;
                }
                _ => {}
            }
            Some(())
        })?;
        Some(reply)
    }
}
