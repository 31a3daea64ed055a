//! The name of a function, out of the compiler's name of what is inside it.
//!
//! `shop::Shop::buy`, `<shop::Shop as shop::Buy>::buy`, `other::<impl shop::Shop>::buy`: without
//! what generic types are made of, since one attribute is one lock for all of them. Invariant: a
//! build gives the same name in each process.

/// The static of an attribute, in which the closure is whose name is read.
const SPEC: &str = "::__DLOCK_SPEC";

/// The longest name in bytes: it goes to the server with each acquire.
const LONGEST: usize = 160;

/// `None` if the compiler writes it in another way, or it is too long.
pub(super) fn of_function(inside: &str) -> Option<String> {
    let (function, _) = inside.rsplit_once(SPEC)?;
    let name = without_generics(&function.replace("::{{closure}}", ""))?;
    (name.len() <= LONGEST).then_some(name)
}

/// Leaves out each `<…>` behind a name; one that begins a name is a type or an impl.
fn without_generics(name: &str) -> Option<String> {
    let mut kept = String::with_capacity(name.len());
    let (mut depth, mut before) = (0_usize, ' ');
    // Of each `<` that is open, whether it is kept.
    let mut open = Vec::new();
    for sign in name.chars() {
        match sign {
            '<' => {
                open.push(depth == 0 && !(before.is_alphanumeric() || before == '_'));
                depth += usize::from(open.last() == Some(&false));
                if depth == 0 {
                    kept.push(sign);
                }
            }
            // Not the arrow of a function's type.
            '>' if before != '-' => {
                if open.pop()? {
                    kept.push(sign);
                } else {
                    depth -= 1;
                }
            }
            _ if depth == 0 => kept.push(sign),
            _ => {}
        }
        before = sign;
    }
    open.is_empty().then_some(kept)
}
