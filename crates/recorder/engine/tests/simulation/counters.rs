//! Counters of what happened in runs, each with its name.

/// A struct of counters, which are added over runs and listed with their names; after `..`, another
/// such struct that is part of it.
macro_rules! counters {
    ($name:ident { $($field:ident: $words:literal,)* $(..$part:ident: $kind:ty,)? }) => {
        #[derive(Clone, Debug, Default)]
        pub(crate) struct $name {
            $(pub(crate) $field: u64,)*
            $(pub(crate) $part: $kind,)?
        }

        impl $name {
            pub(crate) fn add(&mut self, other: &$name) {
                $(self.$field += other.$field;)*
                $(self.$part.add(&other.$part);)?
            }

            pub(crate) fn each(&self) -> Vec<(&'static str, u64)> {
                [vec![$(($words, self.$field)),*], $(self.$part.each())?].concat()
            }
        }
    };
}

pub(crate) use counters;
