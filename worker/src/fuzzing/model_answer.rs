//! The answer of a model endpoint: the first line of the input is a protocol, the rest is the body
//! of the response.

use crate::agent::llm::model::ModelProtocol;
use crate::agent::llm::provider::fuzzing::AnswerTrial;

thread_local! {
    static TRIALS: [AnswerTrial; 3] = [
        AnswerTrial::new(ModelProtocol::Chat),
        AnswerTrial::new(ModelProtocol::Responses),
        AnswerTrial::new(ModelProtocol::Anthropic),
    ];
}

pub fn model_answer(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n');
    let (protocol, body) = data.split_at(end.map_or(0, |end| end + 1));
    let at = match protocol.trim_ascii() {
        b"chat" => 0,
        b"responses" => 1,
        _ => 2,
    };
    TRIALS.with(|trials| {
        let whole = trials[at].read(&[body]);
        assert!(whole.agrees(), "{whole:?}");
        let (first, second) = body.split_at(body.len() / 2);
        let halves = trials[at].read(&[first, second]);
        assert_eq!(whole.text, halves.text);
        assert_eq!(whole.reasoning, halves.reasoning);
        assert_eq!(whole.arguments, halves.arguments);
        assert_eq!(whole.end.is_ok(), halves.end.is_ok());
        // A part of a good body shows a part of the answer.
        let part = trials[at].read(&[first]);
        let good = whole.end.is_ok();
        assert!(
            !good || whole.text.starts_with(&part.text),
            "{part:?} {whole:?}"
        );
    });
}
