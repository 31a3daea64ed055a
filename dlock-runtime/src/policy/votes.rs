//! What a majority of independent voters says: which server is the master. No I/O.
//!
//! Invariant: no value wins without more than half of *all* voters, those that are silent included.

/// The votes of one question.
#[derive(Debug)]
pub(crate) struct Votes<T> {
    voters: usize,
    /// Each value with the number of its votes.
    counted: Vec<(T, usize)>,
    silent: usize,
}

/// What the votes so far decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict<T> {
    Elected(T),
    /// Votes that are missing may still decide.
    Open,
    /// No value can get a majority any more.
    Split,
}

impl<T: PartialEq + Clone> Votes<T> {
    pub(crate) fn of(voters: usize) -> Self {
        Self {
            voters,
            counted: Vec::new(),
            silent: 0,
        }
    }

    /// Counts one voter's answer; `None`: it has none. Each voter may be counted once.
    pub(crate) fn count(&mut self, answer: Option<T>) -> Verdict<T> {
        match answer {
            None => self.silent += 1,
            Some(value) => match self.counted.iter_mut().find(|(known, _)| *known == value) {
                Some((_, votes)) => *votes += 1,
                None => self.counted.push((value, 1)),
            },
        }
        self.verdict()
    }

    fn verdict(&self) -> Verdict<T> {
        let leading = self.counted.iter().max_by_key(|(_, votes)| *votes);
        let most = leading.map_or(0, |(_, votes)| *votes);
        if let Some((value, votes)) = leading
            && votes * 2 > self.voters
        {
            return Verdict::Elected(value.clone());
        }
        let voted: usize = self.counted.iter().map(|(_, votes)| votes).sum();
        let missing = self.voters.saturating_sub(voted + self.silent);
        if (most + missing) * 2 > self.voters {
            Verdict::Open
        } else {
            Verdict::Split
        }
    }
}
