//! One field of a form.

use serde_json::Value;

use crate::chat::session::{list, text};

pub struct FormField {
    pub name: String,
    title: String,
    is_required: bool,
    takes: FieldType,
}

enum FieldType {
    Text,
    Number,
    Boolean,
    OneOf(Vec<String>),
}

impl FormField {
    /// `None` if there is one that cannot be asked for on a line.
    pub fn all(schema: &Value) -> Option<Vec<Self>> {
        let properties = schema["properties"].as_object()?;
        let required: Vec<_> = list(&schema["required"]).collect();
        let field = |(name, schema): (&String, &Value)| {
            let title = match schema["title"].as_str() {
                Some(_) => text(&schema["title"]),
                None => name.clone(),
            };
            Some(Self {
                name: name.clone(),
                title,
                is_required: required.iter().any(|required| *required == name),
                takes: FieldType::read(schema)?,
            })
        };
        let fields: Option<Vec<_>> = properties.iter().map(field).collect();
        fields.filter(|fields| !fields.is_empty())
    }

    pub fn asked(&self) -> String {
        let takes = match &self.takes {
            FieldType::Text => String::new(),
            FieldType::Number => " (a number)".into(),
            FieldType::Boolean => " (yes or no)".into(),
            FieldType::OneOf(values) => format!(" ({})", values.join(", ")),
        };
        let optional = if self.is_required {
            ""
        } else {
            ", may be left empty"
        };
        format!("{}{takes}{optional}", self.title)
    }

    /// Or what it should be.
    pub fn value(&self, line: &str) -> Result<Value, String> {
        if line.is_empty() && !self.is_required {
            return Ok(Value::Null);
        }
        let value = match &self.takes {
            FieldType::Text => (!line.is_empty()).then(|| line.into()),
            FieldType::Number => line.parse::<serde_json::Number>().ok().map(Value::Number),
            FieldType::Boolean => match line.to_ascii_lowercase().as_str() {
                "y" | "yes" | "true" => Some(true.into()),
                "n" | "no" | "false" => Some(false.into()),
                _ => None,
            },
            FieldType::OneOf(values) => values
                .iter()
                .find(|value| value.eq_ignore_ascii_case(line))
                .map(|value| value.as_str().into()),
        };
        value.ok_or_else(|| format!("wanted: {}; Ctrl-C cancels", self.asked()))
    }
}

impl FieldType {
    fn read(schema: &Value) -> Option<Self> {
        if let Some(values) = schema["enum"].as_array() {
            let values = values.iter().map(|value| Some(value.as_str()?.to_owned()));
            return Some(Self::OneOf(values.collect::<Option<_>>()?));
        }
        if let Some(values) = schema["oneOf"].as_array() {
            let values = values
                .iter()
                .map(|value| Some(value["const"].as_str()?.to_owned()));
            return Some(Self::OneOf(values.collect::<Option<_>>()?));
        }
        match schema["type"].as_str()? {
            "string" => Some(Self::Text),
            "number" | "integer" => Some(Self::Number),
            "boolean" => Some(Self::Boolean),
            _ => None,
        }
    }
}
