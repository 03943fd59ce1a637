use super::*;

fn permission() -> AgentQuestion {
    let option = |id: &str, name: &str| json!({ "optionId": id, "name": name, "kind": id });
    let options = [
        option("allow_once", "Allow"),
        option("allow_always", "Always allow"),
        option("reject_once", "Reject"),
    ];
    let params = json!({ "toolCall": { "title": "a tool" }, "options": options });
    let read = AgentQuestion::read(json!(1), "session/request_permission", &params);
    read.unwrap().unwrap()
}

fn option_of(result: &Value) -> &str {
    result["outcome"]["optionId"].as_str().unwrap_or_default()
}

#[test]
fn an_option_is_chosen_by_its_number_or_letter() {
    for (line, option) in [
        ("1", "allow_once"),
        ("a", "allow_once"),
        ("2", "allow_always"),
        ("L", "allow_always"),
        (" r ", "reject_once"),
        ("always allow", "allow_always"),
    ] {
        match permission().answer(line) {
            QuestionReply::Result(result) => assert_eq!(option_of(&result), option, "{line}"),
            _ => panic!("{line} is clear"),
        }
    }
    for line in ["", "0", "4", "x", "al"] {
        assert!(
            matches!(permission().answer(line), QuestionReply::Unclear(_)),
            "{line}"
        );
    }
}

#[test]
fn where_nobody_answers_nothing_is_allowed() {
    assert_eq!(option_of(&permission().declined()), "reject_once");
}

#[test]
fn a_form_is_filled_in_field_by_field() {
    let schema = json!({
        "properties": {
            "age": { "type": "integer" },
            "colour": { "type": "string", "enum": ["red", "blue"] },
            "name": { "type": "string" },
            "really": { "type": "boolean" },
        },
        "required": ["colour", "really"],
    });
    let params = json!({ "message": "Who?", "requestedSchema": schema });
    let mut form = AgentQuestion::read(json!(1), "elicitation/create", &params)
        .unwrap()
        .unwrap();
    let fields: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
    let mut result = None;
    for field in fields {
        let (wrong, right) = match field.as_str() {
            "age" => ("old", "7"),
            "colour" => ("green", "Blue"),
            "name" => ("", ""),
            _ => ("perhaps", "yes"),
        };
        if !wrong.is_empty() {
            assert!(
                matches!(form.answer(wrong), QuestionReply::Unclear(_)),
                "{field}"
            );
        }
        if let QuestionReply::Result(value) = form.answer(right) {
            result = Some(value);
        }
    }
    let content = json!({ "age": 7, "colour": "blue", "really": true });
    assert_eq!(
        result.unwrap(),
        json!({ "action": "accept", "content": content })
    );
}

#[test]
fn a_form_that_needs_more_than_lines_is_declined() {
    let schema = json!({ "properties": { "many": { "type": "array" } } });
    let read = AgentQuestion::read(
        json!(1),
        "elicitation/create",
        &json!({ "requestedSchema": schema }),
    );
    assert_eq!(read.unwrap().err().unwrap()["action"], "decline");
}
