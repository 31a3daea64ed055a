//! What a majority of independent voters says: which server is the master. No I/O.
//!
//! Invariant: no value wins without more than half of *all* voters, those that are silent included.

/// The votes of one question.
#[derive(Debug)]
pub(crate) struct Votes<T> {
    voters: usize,
    /// Each value with the number of its votes.
    counted: Vec<(T, usize)>,
}

impl<T: PartialEq> Votes<T> {
    pub(crate) fn of(voters: usize) -> Self {
        Self {
            voters,
            counted: Vec::new(),
        }
    }

    /// Counts one voter's answer; returns whether it has a majority now. Each voter may be counted
    /// once.
    pub(crate) fn count(&mut self, value: T) -> bool {
        let known = self.counted.iter().position(|(known, _)| *known == value);
        let votes = if let Some(known) = known {
            let (_, votes) = &mut self.counted[known]; // `position` has found it
            *votes += 1;
            *votes
        } else {
            self.counted.push((value, 1));
            1
        };
        votes * 2 > self.voters
    }
}
