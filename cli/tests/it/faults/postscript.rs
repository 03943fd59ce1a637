//! B9: what an agent says right after its answer is told after it.

use crate::stdio::{Visit, served};

#[tokio::test]
async fn b9_what_is_said_after_an_answer_is_told_after_it() {
    let baton = served("", &[]).await;
    let mut visit = Visit::begin(&baton.url()).await;
    for number in 0..10 {
        let (said, answer) = visit
            .turn(&format!("say word\npostscript ps-{number}"))
            .await;
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        assert_eq!(said, "word");
        assert_eq!(visit.next_chunk().await, format!("ps-{number}"));
    }
}
