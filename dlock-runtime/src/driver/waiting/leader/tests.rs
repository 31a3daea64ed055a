//! Tests that `let_others_go_first` keeps the order of the tasks that call it.

use std::sync::{Arc, Mutex};

use super::let_others_go_first;

#[tokio::test]
async fn a_task_that_lets_others_go_first_keeps_its_place_among_its_like() {
    let said = Arc::new(Mutex::new(Vec::new()));
    let say = |word: &'static str, waits: bool| {
        let said = said.clone();
        tokio::spawn(async move {
            if waits {
                let_others_go_first().await;
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
