//! "Did you mean …?": the known name that is nearest to an unknown one.

/// The name that was probably meant: at most one edit per three letters.
#[must_use]
pub fn nearest(text: &str, names: impl IntoIterator<Item = &'static str>) -> Option<&'static str> {
    names
        .into_iter()
        .map(|name| (slips(text, name), name))
        .filter(|(slips, name)| *slips <= name.len().div_ceil(3))
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, name)| name)
}

/// The edit distance: letters inserted, removed, replaced or swapped with their neighbour (optimal
/// string alignment).
fn slips(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, &from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &to) in b.iter().enumerate() {
            let get = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX - 1);
            let mut best = (get(&above, j) + usize::from(from != to))
                .min(get(&above, j + 1) + 1)
                .min(get(&row, j) + 1);
            let swapped =
                i > 0 && j > 0 && a.get(i - 1) == Some(&to) && b.get(j - 1) == Some(&from);
            if swapped {
                best = best.min(get(&before, j - 1) + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or_default()
}
