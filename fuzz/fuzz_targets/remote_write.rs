//! Remote write: whatever arrives is read or refused, as the check before the journal says, and
//! every element has updates or a reason.

#![no_main]

use formats::{Arrival, MessageContent, Messages, Protocol, check_message};
use libfuzzer_sys::fuzz_target;
use series::Limits;

fuzz_target!(|data: &[u8]| {
    let Some((version, message)) = data.split_first() else { return };
    let protocol = if version & 1 == 0 { Protocol::RemoteWrite1 } else { Protocol::RemoteWrite2 };
    let checked = check_message(protocol, message);
    let mut messages = Messages::new(Limits::DEFAULT, 100);
    let (mut taken, mut again) = (MessageContent::default(), MessageContent::default());
    let arrival = Arrival::live(1_767_225_600_000_000);
    assert_eq!(messages.read(protocol, message, arrival, &mut taken), checked);
    if checked.is_err() {
        return;
    }
    for element in &taken.elements {
        assert_eq!(element.refused.is_some(), element.updates == 0);
    }
    let updates: usize = taken.elements.iter().map(|element| element.updates).sum();
    assert_eq!(updates, taken.updates.len());
    for (series, _) in &taken.updates {
        messages.book().name(*series);
    }
    // Version 1.0 remembers the types that it reads, so only the second and third time are alike.
    assert_eq!(messages.read(protocol, message, arrival, &mut taken), Ok(()));
    assert_eq!(messages.read(protocol, message, arrival, &mut again), Ok(()));
    assert_eq!(format!("{taken:?}"), format!("{again:?}"));
});
