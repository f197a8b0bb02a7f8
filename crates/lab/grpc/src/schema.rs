//! All definitions that are known, by name.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::descriptor::{self, EnumType, FileDescriptor, MessageType, ServiceMethod, ServiceType};
use crate::error::{GrpcError, hint};

/// Services and messages, from a file of descriptors or as a server describes them.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// Who described them, as the beginning of a sentence.
    origin: String,
    files: BTreeSet<String>,
    imports: BTreeSet<String>,
    messages: HashMap<String, MessageType>,
    enums: HashMap<String, EnumType>,
    services: BTreeMap<String, ServiceType>,
}

impl Schema {
    /// The definitions in a `FileDescriptorSet`, as protoc and buf write it.
    ///
    /// # Errors
    /// [`GrpcError::NotDescriptors`], with the file's `path`.
    pub fn of_set(bytes: &[u8], path: &str) -> Result<Schema, GrpcError> {
        let error = || GrpcError::NotDescriptors { path: path.to_owned() };
        let files = descriptor::files(bytes).filter(|files| !files.is_empty());
        let mut schema = Schema::empty(path);
        files.ok_or_else(error)?.into_iter().for_each(|file| schema.add(file));
        Ok(schema)
    }

    /// No definitions yet.
    pub(crate) fn empty(origin: &str) -> Schema {
        Schema { origin: origin.to_owned(), ..Schema::default() }
    }

    pub(crate) fn add(&mut self, file: FileDescriptor) {
        self.files.insert(file.name);
        self.imports.extend(file.imports);
        self.messages.extend(file.messages.into_iter().map(|one| (one.name.clone(), one)));
        self.enums.extend(file.enums.into_iter().map(|one| (one.name.clone(), one)));
        self.services.extend(file.services.into_iter().map(|one| (one.name.clone(), one)));
    }

    /// Files that others import, and that are not there.
    pub(crate) fn missing(&self) -> Vec<String> {
        self.imports.difference(&self.files).cloned().collect()
    }

    pub(crate) fn has_service(&self, name: &str) -> bool {
        self.services.contains_key(name)
    }

    pub(crate) fn message(&self, name: &str) -> Option<&MessageType> {
        self.messages.get(name)
    }

    pub(crate) fn enumeration(&self, name: &str) -> Option<&EnumType> {
        self.enums.get(name)
    }

    /// A unary method, by `package.Service/Method`.
    pub(crate) fn method(&self, called: &str) -> Result<&ServiceMethod, GrpcError> {
        let (service, method) = called.split_once('/').unwrap_or((called, ""));
        let Some(known) = self.services.get(service) else {
            return Err(GrpcError::NoService {
                origin: self.origin.clone(),
                service: service.to_owned(),
                hint: hint(service, self.services.keys().map(String::as_str)),
            });
        };
        let Some(found) = known.methods.iter().find(|known| known.name == method) else {
            return Err(GrpcError::NoMethod {
                service: service.to_owned(),
                method: method.to_owned(),
                hint: hint(method, known.methods.iter().map(|known| known.name.as_str())),
            });
        };
        if found.client_streams || found.server_streams {
            return Err(GrpcError::Streaming { method: called.to_owned() });
        }
        Ok(found)
    }
}
