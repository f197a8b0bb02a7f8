//! A thread that asks the store for the names of requests, because the one that writes may be busy.

use std::sync::mpsc::{Sender, channel};

use engine::Reply;
use store::Writer;

use super::store_thread::Ends;
use crate::ServeError;

/// Starts the thread, which ends when the returned sender is dropped.
///
/// # Errors
/// Those of the system, if there can be no thread.
pub(super) fn start(
    place: &str,
    replies: Sender<Option<Reply>>,
) -> Result<Sender<Writer>, ServeError> {
    let (asked, questions) = channel();
    let place = place.to_owned();
    let thread = std::thread::Builder::new().name("keys".to_owned()).spawn(move || {
        let ends = Ends(replies);
        let mut store = None;
        for key in questions {
            let known = match &mut store {
                Some(store) => Ok(store),
                None => store::open_read_only(&place).map(|opened| store.insert(opened)),
            };
            ends.reply(Reply::Known(key, known.and_then(|store| store.has_request(key))));
        }
    });
    thread.map_err(ServeError::System)?;
    Ok(asked)
}
