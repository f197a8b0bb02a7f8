//! Which request comes next.

use std::sync::Arc;

use base::{Rng, Seed};
use rand::Rng as _;

/// What a session can send: messages by number, and those of each kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choices(Vec<KindChoice>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KindChoice {
    /// Cards of this kind in a deck.
    pub(crate) weight: u32,
    /// Its messages, which take turns.
    pub(crate) messages: Vec<u32>,
    /// Whether the requests' method is HEAD, by message.
    pub(crate) to_head: Vec<bool>,
}

/// The next request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Card {
    /// The number of its kind.
    pub(crate) kind: u32,
    /// The number of its message.
    pub(crate) message: u32,
    /// Whether its method is HEAD.
    pub(crate) to_head: bool,
}

impl Choices {
    /// These kinds, of which each has a weight and at least one message.
    pub(crate) fn new(kinds: Vec<KindChoice>) -> Choices {
        Choices(kinds)
    }

    /// A single message.
    pub(crate) fn single(to_head: bool) -> Choices {
        Choices(vec![KindChoice { weight: 1, messages: vec![0], to_head: vec![to_head] }])
    }

    /// The numbers of a kind's messages.
    pub(crate) fn messages(&self, kind: usize) -> &[u32] {
        &self.0[kind].messages
    }

    /// The number of kinds.
    pub(crate) fn kinds(&self) -> usize {
        self.0.len()
    }
}

/// A shuffled deck with as many cards of each kind as its weight says, so that the proportions are
/// exact after each deck. It is shuffled again for the next.
#[derive(Debug)]
pub(crate) struct Deck {
    choices: Arc<Choices>,
    /// Numbers of kinds; empty if there is only one message.
    cards: Vec<u32>,
    next: usize,
    /// The turn of each kind's messages.
    turns: Vec<usize>,
    rng: Rng,
}

impl Deck {
    /// The deck of a client thread. Two sessions with the same seed send the same sequence.
    pub(crate) fn new(choices: Arc<Choices>, seed: Seed, thread: u32) -> Deck {
        let mut rng = seed.derive("requests", u64::from(thread)).rng("deck");
        let is_single = matches!(choices.0.as_slice(), [only] if only.messages.len() == 1);
        let cards = match is_single {
            true => Vec::new(),
            false => (0..)
                .zip(&choices.0)
                .flat_map(|(kind, choice)| (0..choice.weight).map(move |_| kind))
                .collect(),
        };
        // Each block would otherwise begin with the same messages, and never reach the others.
        let turns = choices.0.iter().map(|kind| below(&mut rng, kind.messages.len())).collect();
        let next = cards.len();
        Deck { choices, cards, next, turns, rng }
    }

    /// The next request.
    pub(crate) fn draw(&mut self) -> Card {
        if self.cards.is_empty() {
            return self.of_kind(0);
        }
        if self.next == self.cards.len() {
            self.next = 0;
        }
        // One step of a shuffle (Fisher and Yates, in Durstenfeld's form).
        let other = self.next + below(&mut self.rng, self.cards.len() - self.next);
        self.cards.swap(self.next, other);
        self.next += 1;
        self.of_kind(self.cards[self.next - 1] as usize)
    }

    /// The next request of a kind.
    pub(crate) fn of_kind(&mut self, kind: usize) -> Card {
        let choice = &self.choices.0[kind];
        let turn = self.turns[kind];
        self.turns[kind] = if turn + 1 == choice.messages.len() { 0 } else { turn + 1 };
        Card { kind: kind as u32, message: choice.messages[turn], to_head: choice.to_head[turn] }
    }
}

/// A random number below a limit, which is above zero; its bias is below 2⁻³² for lengths of decks.
fn below(rng: &mut Rng, limit: usize) -> usize {
    ((u128::from(rng.next_u64()) * limit as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices() -> Arc<Choices> {
        let kind = |weight, messages: std::ops::Range<u32>| {
            let to_head = messages.clone().map(|message| message == 3).collect();
            KindChoice { weight, messages: messages.collect(), to_head }
        };
        Arc::new(Choices::new(vec![kind(7, 0..3), kind(2, 3..4), kind(1, 4..9)]))
    }

    #[test]
    fn proportions_are_exact_and_messages_take_turns() {
        let mut deck = Deck::new(choices(), Seed(3), 0);
        let mut orders = std::collections::BTreeSet::new();
        let mut sent = [0_u32; 9];
        for _ in 0..30 {
            let round: Vec<Card> = (0..10).map(|_| deck.draw()).collect();
            let of = |kind: u32| round.iter().filter(|card| card.kind == kind).count();
            assert_eq!([of(0), of(1), of(2)], [7, 2, 1]);
            round.iter().for_each(|card| sent[card.message as usize] += 1);
            assert!(round.iter().all(|card| card.to_head == (card.message == 3)));
            orders.insert(round.iter().map(|card| card.kind).collect::<Vec<_>>());
        }
        assert_eq!(sent, [70, 70, 70, 60, 6, 6, 6, 6, 6]);
        assert!(orders.len() > 20, "each deck has its own order: {}", orders.len());
    }

    #[test]
    fn a_seed_repeats_the_sequence_and_threads_differ() {
        let sequence = |seed, thread| {
            let mut deck = Deck::new(choices(), Seed(seed), thread);
            (0..100).map(|_| deck.draw().message).collect::<Vec<u32>>()
        };
        assert_eq!(sequence(1, 0), sequence(1, 0));
        assert_ne!(sequence(1, 0), sequence(1, 1));
        assert_ne!(sequence(1, 0), sequence(2, 0));
    }

    #[test]
    fn every_place_of_a_deck_is_equally_likely() {
        // The single card of the third kind is in each of ten places in a tenth of the decks.
        let mut deck = Deck::new(choices(), Seed(5), 0);
        let mut places = [0_u32; 10];
        for _ in 0..20_000 {
            for place in &mut places {
                *place += u32::from(deck.draw().kind == 2);
            }
        }
        // Six standard deviations of a binomial count.
        let sigma = (20_000.0_f64 * 0.1 * 0.9).sqrt();
        assert!(places.iter().all(|n| (f64::from(*n) - 2_000.0).abs() < 6.0 * sigma), "{places:?}");
    }

    #[test]
    fn a_single_message_needs_no_deck() {
        let mut deck = Deck::new(Arc::new(Choices::single(true)), Seed(1), 0);
        assert_eq!(deck.draw(), Card { kind: 0, message: 0, to_head: true });
        assert_eq!(deck.cards.capacity(), 0);
    }
}
