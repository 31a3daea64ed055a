//! When the nodes are asked who serves what: one round at a time, however many want to know, and
//! ever less often while rounds bring nothing new.

use std::time::Duration;

use tokio::time::Instant;

use crate::link::command_error::CommandError;

/// The least time between two rounds: this after something new, doubled up to the other.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(1600);

#[derive(Debug)]
pub(super) struct QuestionRounds {
    /// When the round that is under way began.
    began: Option<Instant>,
    /// When the latest one ended, and how it failed.
    ended: Option<(Instant, Option<CommandError>)>,
    pause: Duration,
}

/// What somebody does who wants to know.
#[derive(Debug)]
pub(super) enum RoundNext {
    /// Begins a round.
    Ask,
    /// Waits for the one that is under way.
    Wait,
    /// Takes what is known: a round has ended since, or a moment ago.
    Known(Result<(), CommandError>),
}

impl QuestionRounds {
    pub(super) fn new() -> Self {
        Self {
            began: None,
            ended: None,
            pause: PAUSE,
        }
    }

    /// For somebody who wants to know since `called`. A round that takes longer than `at_most` was
    /// given up: its runtime may stand still.
    pub(super) fn next(&mut self, called: Instant, at_most: Duration) -> RoundNext {
        let now = Instant::now();
        // What no retry ends may be the fault of one caller's runtime.
        let lasts =
            |failed: &Option<CommandError>| failed.as_ref().is_none_or(CommandError::may_pass);
        if let Some((ended, failed)) = &self.ended
            && (*ended >= called || (now - *ended < self.pause && lasts(failed)))
        {
            return RoundNext::Known(failed.clone().map_or(Ok(()), Err));
        }
        if self.began.is_some_and(|began| now - began <= at_most) {
            return RoundNext::Wait;
        }
        self.began = Some(now);
        RoundNext::Ask
    }

    /// A round has ended; whether it said something new. Returns whether it is the first that failed
    /// since one did not, or the reverse.
    pub(super) fn ended(&mut self, said: Result<bool, CommandError>) -> bool {
        let has_failed = self
            .ended
            .as_ref()
            .is_some_and(|(_, error)| error.is_some());
        let is_first = said.is_err() != has_failed;
        self.pause = match said {
            Ok(true) => PAUSE,
            _ => (self.pause * 2).min(LONGEST_PAUSE),
        };
        self.began = None;
        self.ended = Some((Instant::now(), said.err()));
        is_first
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;
    use crate::values::error::Reason;

    const AT_MOST: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn many_want_to_know_and_one_asks() {
        let mut rounds = QuestionRounds::new();
        let called = Instant::now();
        assert!(matches!(rounds.next(called, AT_MOST), RoundNext::Ask));
        assert!(matches!(rounds.next(called, AT_MOST), RoundNext::Wait));
        advance(Duration::from_millis(5)).await;
        assert!(!rounds.ended(Ok(true)));
        assert!(matches!(
            rounds.next(called, AT_MOST),
            RoundNext::Known(Ok(()))
        ));
        advance(PAUSE).await;
        assert!(matches!(
            rounds.next(Instant::now(), AT_MOST),
            RoundNext::Ask
        ));
        let silent = || Err(CommandError::Unsent(Reason::new("silent")));
        assert!(rounds.ended(silent()) && !rounds.ended(silent()));
        assert!(rounds.ended(Ok(false)) && !rounds.ended(Ok(false)));
        assert!(rounds.ended(silent()));
        assert!(matches!(
            rounds.next(called, AT_MOST),
            RoundNext::Known(Err(_))
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn rounds_that_bring_nothing_are_spaced_out() {
        let mut rounds = QuestionRounds::new();
        let mut asked = 0;
        let end = Instant::now() + Duration::from_secs(16);
        while Instant::now() < end {
            if let RoundNext::Ask = rounds.next(Instant::now(), AT_MOST) {
                asked += 1;
                rounds.ended(Ok(false));
            }
            advance(Duration::from_millis(10)).await;
        }
        assert!((10..=16).contains(&asked), "{asked}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_that_stands_still_keeps_nobody_out() {
        let mut rounds = QuestionRounds::new();
        assert!(matches!(
            rounds.next(Instant::now(), AT_MOST),
            RoundNext::Ask
        ));
        advance(AT_MOST * 2).await;
        assert!(matches!(
            rounds.next(Instant::now(), AT_MOST),
            RoundNext::Ask
        ));
    }
}
