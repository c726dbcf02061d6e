//! What a broker stores: messages in queues, deliveries and schedules.

// Before the modules that use it: a macro is known from its definition on.
/// Gives an enumeration the names that JSON and the ledger have for its variants.
macro_rules! names {
    ($type:ident { $($variant:ident = $name:literal),+ $(,)? }) => {
        impl $type {
            /// The name used on every surface.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// The one of that name.
            #[must_use]
            pub fn of_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}
pub(crate) use names;

pub(crate) mod delivery;
pub(crate) mod dispatch;
pub(crate) mod queue;
pub(crate) mod schedule;
