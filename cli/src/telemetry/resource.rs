//! Which process it is that tells. Traces and metrics say the same.

use baton_session::id::random_text;
use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;

/// The environment takes precedence.
pub fn resource(service: &'static str) -> Resource {
    let told = Resource::builder().build();
    let is_told = |name: &'static str| told.get(&name.into()).is_some();
    let named = told
        .get(&"service.name".into())
        .is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    let mut resource = Resource::builder();
    if !named {
        resource = resource.with_service_name(service);
    }
    if !is_told("service.version") {
        let version = env!("CARGO_PKG_VERSION");
        resource = resource.with_attribute(KeyValue::new("service.version", version));
    }
    if !is_told("service.instance.id") {
        let id = random_text(12);
        resource = resource.with_attribute(KeyValue::new("service.instance.id", id));
    }
    resource.build()
}
