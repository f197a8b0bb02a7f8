//! What can be wrong with a call before it is made.

/// Why calls cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrpcError {
    /// The bytes are not a `FileDescriptorSet`.
    #[error(
        "{path} is not a set of descriptors; make one with 'protoc --include_imports \
         --descriptor_set_out=FILE x.proto' or 'buf build -o FILE'"
    )]
    NotDescriptors {
        /// The file.
        path: String,
    },
    /// The service is unknown.
    #[error("{origin} has no service '{service}'; {hint}")]
    NoService {
        /// Who described the services.
        origin: String,
        /// Its full name.
        service: String,
        /// What there is instead.
        hint: String,
    },
    /// The service is known, but not its method.
    #[error("the service '{service}' has no method '{method}'; {hint}")]
    NoMethod {
        /// Its full name.
        service: String,
        /// The method.
        method: String,
        /// What there is instead.
        hint: String,
    },
    /// The method has more than one message in a direction.
    #[error("'{method}' is a streaming method; only unary methods can be called")]
    Streaming {
        /// The method, with its service.
        method: String,
    },
    /// The body is not JSON.
    #[error(
        "the body of a call of '{method}' is not JSON: {why}; an encoded message needs --binary"
    )]
    NotJson {
        /// The method, with its service.
        method: String,
        /// What is wrong, and where.
        why: String,
    },
    /// A value does not fit its field.
    #[error("the body of a call of '{method}' is not a {message}: {}{why}", at(.path))]
    Unfit {
        /// The method, with its service.
        method: String,
        /// The full name of the message.
        message: String,
        /// Where: `items[3].price`; empty for the whole message.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// The server does not describe its services.
    #[error(
        "{origin} does not describe its services (gRPC server reflection); give their descriptors \
         with --protoset FILE, or an encoded message with --binary"
    )]
    NoReflection {
        /// The server.
        origin: String,
    },
    /// The server's answer to a question about its services is of no use.
    #[error("{origin} cannot describe its services: {why}; use --protoset FILE instead")]
    BadReflection {
        /// The server.
        origin: String,
        /// What it answered.
        why: String,
    },
}

fn at(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("'{path}' ") }
}

/// What to write instead of an unknown name.
pub(crate) fn hint<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    let nearest = known
        .iter()
        .map(|candidate| (strsim::osa_distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= 3)
        .min_by_key(|(distance, _)| *distance);
    match nearest {
        Some((_, candidate)) => format!("did you mean '{candidate}'?"),
        None if known.is_empty() => "there are none".to_owned(),
        None => format!("there are: {}", known.join(", ")),
    }
}
