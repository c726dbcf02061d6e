//! Azure's paths, from every common form of base URL. It must never call a real service.

use super::Paths;
use crate::Api;
use crate::http::BaseUrl;

/// The URLs for Chat Completions and Responses, or the error.
fn urls(
    base: &str,
    version: Option<&str>,
    deployment: Option<&str>,
) -> Result<[String; 2], String> {
    let base = BaseUrl::parse("baseUrl", base, false).unwrap();
    let own = |text: Option<&str>| text.map(str::to_owned);
    let paths = Paths::azure(&base, own(version), own(deployment), &|field| field.to_owned())
        .map_err(|error| error.to_string())?;
    let url =
        |api, path: &str| base.join(&paths.shape(api, path.to_owned(), "gpt 5/x")).to_string();
    Ok([url(Api::OpenaiChat, "/chat/completions"), url(Api::OpenaiResponses, "/responses")])
}

#[test]
fn every_form_of_base_url_leads_to_the_deployment() {
    const V: &str = "2024-10-21";
    type Case = (&'static str, Option<&'static str>, Option<&'static str>, [&'static str; 2]);
    let cases: [Case; 9] = [
        (
            "https://r.openai.azure.com/",
            None,
            None,
            [
                "https://r.openai.azure.com/openai/v1/chat/completions",
                "https://r.openai.azure.com/openai/v1/responses",
            ],
        ),
        (
            "https://r.openai.azure.com",
            Some("preview"),
            None,
            [
                "https://r.openai.azure.com/openai/v1/chat/completions?api-version=preview",
                "https://r.openai.azure.com/openai/v1/responses?api-version=preview",
            ],
        ),
        (
            "https://r.openai.azure.com/openai/v1/",
            None,
            None,
            [
                "https://r.openai.azure.com/openai/v1/chat/completions",
                "https://r.openai.azure.com/openai/v1/responses",
            ],
        ),
        (
            "https://r.openai.azure.com",
            Some(V),
            None,
            [
                "https://r.openai.azure.com/openai/deployments/gpt%205%2Fx/chat/completions?api-version=2024-10-21",
                "https://r.openai.azure.com/openai/responses?api-version=2024-10-21",
            ],
        ),
        (
            "https://r.openai.azure.com/openai",
            Some(V),
            Some("mine"),
            [
                "https://r.openai.azure.com/openai/deployments/mine/chat/completions?api-version=2024-10-21",
                "https://r.openai.azure.com/openai/responses?api-version=2024-10-21",
            ],
        ),
        (
            "https://r.openai.azure.com?api-version=2024-10-21",
            None,
            Some("mine"),
            [
                "https://r.openai.azure.com/openai/deployments/mine/chat/completions?api-version=2024-10-21",
                "https://r.openai.azure.com/openai/responses?api-version=2024-10-21",
            ],
        ),
        (
            "https://gateway.example/team/openai/deployments/d",
            Some(V),
            None,
            [
                "https://gateway.example/team/openai/deployments/d/chat/completions?api-version=2024-10-21",
                "https://gateway.example/team/openai/deployments/d/responses?api-version=2024-10-21",
            ],
        ),
        (
            "https://gateway.example/team",
            Some(V),
            Some("d"),
            [
                "https://gateway.example/team/openai/deployments/d/chat/completions?api-version=2024-10-21",
                "https://gateway.example/team/openai/responses?api-version=2024-10-21",
            ],
        ),
        (
            "https://r.services.ai.azure.com/models",
            Some("2024-05-01-preview"),
            None,
            [
                "https://r.services.ai.azure.com/models/chat/completions?api-version=2024-05-01-preview",
                "https://r.services.ai.azure.com/models/responses?api-version=2024-05-01-preview",
            ],
        ),
    ];
    for (base, version, deployment, expected) in cases {
        assert_eq!(urls(base, version, deployment), Ok(expected.map(str::to_owned)), "{base}");
    }
}

#[test]
fn invalid_options_are_refused_with_their_field() {
    let cases = [
        (
            urls("https://r.example?api-version=2024-10-21", Some("2024-10-21"), None),
            "`apiVersion`: is in `baseUrl` already; name it once",
        ),
        (
            urls("https://r.example", Some("2024&x=1"), None),
            "`apiVersion`: is not a version; pass one like `2024-10-21`",
        ),
        (
            urls("https://r.example/openai/deployments/d", None, None),
            "`apiVersion`: is missing; pass one like `2024-10-21`",
        ),
        (
            urls("https://r.example/openai", None, None),
            "`baseUrl`: ends with `/openai`; end it before that, or with `/openai/v1`",
        ),
        (
            urls("https://r.example", Some("2024-10-21"), Some("")),
            "`deployment`: is empty; leave it out for the model",
        ),
        (
            urls("https://r.example", None, Some("d")),
            "`deployment`: is for a dated `apiVersion` with a `baseUrl` that names none; \
             elsewhere the model is the deployment",
        ),
    ];
    for (outcome, expected) in cases {
        assert_eq!(outcome, Err(expected.to_owned()));
    }
}

#[test]
fn other_apis_and_other_services_are_joined() {
    let base = BaseUrl::parse("baseUrl", "https://r.services.ai.azure.com/anthropic", false);
    let paths = Paths::azure(&base.unwrap(), None, None, &|field| field.to_owned()).unwrap();
    let path = || "/v1/messages".to_owned();
    assert_eq!(paths.shape(Api::AnthropicMessages, path(), "m"), path());
    assert_eq!(Paths::Joined.shape(Api::OpenaiChat, path(), "m"), path());
}
