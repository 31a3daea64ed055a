//! What the interface itself does.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Answer, all};
use crate::backend::command_error::CommandError;
use crate::values::error::Reason;

#[tokio::test(start_paused = true)]
async fn all_are_waited_for_at_the_same_time_and_answer_in_order() {
    let begun = Instant::now();
    let after = |seconds: u64| -> Answer<'static, u64> {
        Box::pin(async move {
            sleep(Duration::from_secs(seconds)).await;
            let failed = || CommandError::Unsent(Reason::new("two"));
            if seconds == 2 {
                Err(failed())
            } else {
                Ok(seconds)
            }
        })
    };
    let answers = all(vec![after(3), after(2), after(1)]).await;
    assert_eq!(begun.elapsed(), Duration::from_secs(3));
    let answers: Vec<_> = answers.into_iter().map(Result::ok).collect();
    assert_eq!(answers, [Some(3), None, Some(1)]);
    assert_eq!(all(Vec::<Answer<'_, ()>>::new()).await.len(), 0);
}
