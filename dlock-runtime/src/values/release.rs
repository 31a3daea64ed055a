//! placeholder until the macro branch lands
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    Confirmed,
    Background,
}
