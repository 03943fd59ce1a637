use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn read(text: &str) -> Inbound {
    Inbound::read(Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

fn refused(text: &[u8]) -> Unreadable {
    match Inbound::read(Bytes::copy_from_slice(text)) {
        Ok(_) => panic!("{text:?} was read"),
        Err(unreadable) => unreadable,
    }
}

fn token(text: &str) -> Result<Option<(String, String)>, Ambiguous> {
    let mut inbound = read(text);
    let token = inbound.take_session_token()?;
    Ok(token.map(|token| (token, inbound.text().to_owned())))
}

#[test]
fn the_parts_of_a_message_are_those_that_were_written() {
    let text = r#" {"id": 9223372036854775807 ,"params":{ "cwd":"\u00e9" ,"sessionId":"s","mcpServers":[ 1 ],
        "prompt":[{}],"cursor":null,"of":"others"},"jsonrpc":"2.0","method":"session\/prompt"} "#;
    let message = read(text);
    assert_eq!(message.id(), Some("9223372036854775807"));
    assert_eq!(message.method(), Some(Method::Prompt));
    assert_eq!(message.method_name(), Some("session/prompt"));
    assert!(message.is_request() && message.has_prompt() && message.has_plain_params());
    assert_eq!(message.session_id(), Some("s"));
    assert_eq!(message.field(ParamField::Cwd), Some(r#""\u00e9""#));
    assert_eq!(message.field(ParamField::McpServers), Some("[ 1 ]"));
    assert_eq!(message.field(ParamField::Cursor), None);
    assert_eq!(message.field(ParamField::RequestId), None);
    assert!(message.params().starts_with("{ \"cwd\"") && message.params().ends_with("\"others\"}"));
    assert_eq!(message.bytes(), text.as_bytes());
}

#[test]
fn params_that_are_no_object_have_no_fields() {
    for params in [
        "[]",
        "7",
        "\"x\"",
        "true",
        "-1.5",
        r#"[null,null,null,null,[],"r",null]"#,
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{params}}}"#);
        let message = read(&text);
        assert!(!message.has_plain_params(), "{params}");
        assert_eq!(message.params(), params);
    }
    for none in [r#""params":null,"#, ""] {
        let text = format!(r#"{{{none}"jsonrpc":"2.0","id":1,"method":"x"}}"#);
        assert!(read(&text).has_plain_params());
        assert_eq!(read(&text).params(), "{}");
    }
    let twice = r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"cwd":null,"cwd":"/"}}"#;
    assert!(!read(twice).has_plain_params());
    let prompts = r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"prompt":7,"prompt":[]}}"#;
    assert!(!read(prompts).has_plain_params());
    let settings = r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"value":7,"value":[]}}"#;
    assert!(read(settings).has_plain_params());
    assert_eq!(read(settings).field(ParamField::Value), Some("[]"));
}

#[test]
fn other_texts_are_refused_with_a_reason() {
    let message = |text: &str| match refused(text.as_bytes()) {
        Unreadable::NotAMessage(why) => why,
        Unreadable::NotJson(why) => panic!("{why}"),
    };
    assert!(message("[]").starts_with("batches"));
    assert!(message(r#"{"id":1}"#).contains("must be \"2.0\""));
    assert!(message(r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#).starts_with("\"id\" must"));
    assert!(message(r#"{"jsonrpc":"2.0","id":null}"#).contains("neither"));
    assert!(message(r#"{"jsonrpc":"2.0","method":7}"#).contains("wrong type"));
    assert!(message(r#"{"jsonrpc":2.0,"method":"x"}"#).contains("wrong type"));
    let long = format!(
        r#"{{"jsonrpc":"2.0","id":"{}","method":"x"}}"#,
        "x".repeat(1024)
    );
    assert!(message(&long).contains("1024"));
    for text in [&b"{"[..], b"[1", b"", b"{\"a\":\"\xff\"}"] {
        assert!(matches!(refused(text), Unreadable::NotJson(_)));
    }
}

fn is_taken(value: &str) -> bool {
    let inside = [
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"_meta":{value}}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"prompt":{value}}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"x":{value}}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","unheard-of":[{value}]}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,"result":[{value}]}}"#),
    ];
    let taken = inside.map(|message| Inbound::read(message.into()).is_ok());
    assert!(
        taken.iter().all(|one| *one == taken[0]),
        "{value}: {taken:?}"
    );
    taken[0]
}

fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

#[test]
fn values_that_some_could_not_read_are_refused_wherever_they_are() {
    for good in [
        "1e308",
        "-0.0",
        "123456789012345678901234567890",
        r#"{"\u00e9":"\ud83c\udfad"}"#,
        r#"{"$serde_json":"$serde_json::private::RawValue"}"#,
        &nested(125),
    ] {
        assert!(is_taken(good), "{good}");
    }
    for bad in [
        "1e999",
        "[-1E+400]",
        r#""\ud83c""#,
        r#"{"\udfad":1}"#,
        r#"{"$serde_json::private::RawValue":"[1]"}"#,
        r#"{"a":1,"\u0024serde_json::private::Number":"7"}"#,
        r#""\ud83cx""#,
        &nested(126),
        &nested(200),
    ] {
        assert!(!is_taken(bad), "{bad}");
    }
}

#[test]
fn an_error_names_its_position_in_the_message() {
    let text = r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"a":1e999}}}"#;
    let Unreadable::NotJson(why) = refused(text.as_bytes()) else {
        panic!("a number that cannot be read");
    };
    assert_eq!(why, "number out of range at line 1 column 65");
}

#[test]
fn row_24_the_token_is_taken_out_and_nothing_else() {
    for (meta, rest) in [
        (r#"{"baton/session":{"token":"t"}}"#, "{}"),
        (
            r#"{ "b" : [1, 2],"baton/session":{"gen":1,"token":"t"}, "a":{"x" : null}}"#,
            r#"{"b":[1, 2],"a":{"x" : null}}"#,
        ),
        (
            r#"{"baton\/session":{"token":"t"},"\u00e9":1}"#,
            r#"{"é":1}"#,
        ),
    ] {
        let message = |meta: &str| {
            format!(
                r#"{{"jsonrpc":"2.0", "id": 1,"params":{{"_meta": {meta} , "x":"_meta"}},"method":"m"}}"#
            )
        };
        assert_eq!(token(&message(meta)), Ok(Some(("t".into(), message(rest)))));
    }
}

#[test]
fn messages_without_a_token_stay_as_they_are() {
    for params in [
        "[]",
        "{}",
        r#"{"_meta":null}"#,
        r#"{"_meta":{"traceparent":"00"}}"#,
        r#"{"_meta":{"baton/session":null}}"#,
        r#"{"_meta":{"baton/session":{"token":7}}}"#,
        r#"{"x":{"_meta":{"baton/session":{"token":"t"}}}}"#,
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"params":{params},"method":"m"}}"#);
        assert_eq!(token(&text), Ok(None), "{params}");
    }
}

#[test]
fn two_tokens_are_refused() {
    for params in [
        r#"{"_meta":{"baton/session":{"token":"a"},"baton/session":{"token":"b"}}}"#,
        r#"{"_meta":{"baton/session":null,"baton/session":{"token":"b"}}}"#,
        r#"{"_meta":{"baton/session":{"token":"a","token":"b"}}}"#,
        r#"{"_meta":{},"_meta":{"baton/session":{"token":"b"}}}"#,
        r#"{"sessionId":"a","sessionId":"b","_meta":{}}"#,
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{params}}}"#);
        assert_eq!(token(&text), Err(Ambiguous), "{params}");
        assert_eq!(read(&text).trace_context(), None);
    }
}

#[test]
fn trace_context_is_two_strings() {
    let context = |meta: &str| {
        let text =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"_meta":{meta}}}}}"#);
        read(&text).trace_context()
    };
    let both = r#"{"traceparent":"00-a","tracestate":"b=c"}"#;
    assert_eq!(context(both), Some(("00-a".into(), Some("b=c".into()))));
    let parent = r#"{"traceparent":"00-a","tracestate":null}"#;
    assert_eq!(context(parent), Some(("00-a".into(), None)));
    for none in [
        "null",
        "[]",
        r#"{"tracestate":"b=c"}"#,
        r#"{"traceparent":7}"#,
        r#"{"traceparent":"00-a","tracestate":7}"#,
        r#"{"traceparent":"00-a","traceparent":"00-b"}"#,
    ] {
        assert_eq!(context(none), None, "{none}");
    }
}

proptest! {
    /// A message whose token was taken out is the same as one that is read without it.
    #[test]
    fn parts_stay_in_place_when_the_token_is_taken_out(
        before in "[a-zé ]{0,9}", after in "[a-zé ]{0,9}", id in 0u64.., first: bool,
    ) {
        let meta = json!({ "k": before, "baton/session": { "token": after }, "z": [after] });
        let meta = format!("\"_meta\":{meta}");
        let other = json!({ "cwd": before, "requestId": id, "sessionId": after }).to_string();
        let other = &other[1..other.len() - 1];
        let params = if first { format!("{meta} , {other}") } else { format!("{other},{meta}") };
        let text = format!(r#"{{"params":{{{params}}},"id":{id},"jsonrpc":"2.0","method":"{before}"}}"#);
        let mut message = read(&text);
        prop_assert_eq!(message.take_session_token(), Ok(Some(after.clone())));
        let again = read(message.text());
        prop_assert_eq!(message.id(), again.id());
        prop_assert_eq!(message.params(), again.params());
        prop_assert_eq!(message.session_id(), again.session_id());
        for field in [ParamField::Cwd, ParamField::RequestId, ParamField::SessionId, ParamField::Meta] {
            prop_assert_eq!(message.field(field), again.field(field));
        }
        prop_assert_eq!(message.meta("z"), again.meta("z"));
        prop_assert_eq!(message.meta("baton/session"), MetaField::Absent);
        let mut whole: Value = serde_json::from_str(&text).unwrap();
        whole["params"]["_meta"].as_object_mut().unwrap().remove("baton/session");
        prop_assert_eq!(serde_json::from_str::<Value>(message.text()).unwrap(), whole);
    }
}
