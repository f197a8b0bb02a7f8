//! OTLP metrics: whatever arrives is read or refused, as the check before the journal says.

#![no_main]

use formats::{Arrival, MessageContent, Messages, Protocol, check_message};
use libfuzzer_sys::fuzz_target;
use series::Limits;

fuzz_target!(|message: &[u8]| {
    let checked = check_message(Protocol::Otlp, message);
    let mut messages = Messages::new(Limits::DEFAULT, 100);
    let (mut taken, mut again) = (MessageContent::default(), MessageContent::default());
    let arrival = Arrival::live(1_767_225_600_000_000);
    assert_eq!(messages.read(Protocol::Otlp, message, arrival, &mut taken), checked);
    if checked.is_err() {
        return;
    }
    for element in &taken.elements {
        assert!(element.refused.is_none() || element.updates == 0);
    }
    let updates: usize = taken.elements.iter().map(|element| element.updates).sum();
    assert_eq!(updates, taken.updates.len());
    for (series, _) in &taken.updates {
        messages.book().name(*series);
    }
    assert_eq!(messages.read(Protocol::Otlp, message, arrival, &mut again), Ok(()));
    assert_eq!(format!("{taken:?}"), format!("{again:?}"));
});
