//! What the interface itself does, and how futures share a task.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Answer;
use super::joined::{all, yield_to_ready_tasks};
use crate::link::command_error::CommandError;
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

#[tokio::test]
async fn a_task_that_yields_keeps_its_place_among_its_like() {
    let said = Arc::new(Mutex::new(Vec::new()));
    let say = |word: &'static str, waits: bool| {
        let said = said.clone();
        tokio::spawn(async move {
            if waits {
                yield_to_ready_tasks().await;
            }
            said.lock().unwrap().push(word);
        })
    };
    let tasks = [
        say("first", true),
        say("second", true),
        say("third", true),
        say("other", false),
    ];
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*said.lock().unwrap(), ["other", "first", "second", "third"]);
}
