//! Bedrock's options: its base URL, its keys, and every error with its path.

use secrecy::ExposeSecret as _;

use super::{SECRET, parse, shape};
use crate::Api;
use crate::options::ProviderSet;
use base::config::Environment;

const ID: &str = "AKIDEXAMPLE";

/// The credential of a provider's requests: profile, secret, whether it is a bearer token, key id and session token.
fn key(set: &ProviderSet, name: &str) -> (String, String, bool, Option<(String, Option<String>)>) {
    let credential = set.credential(name).unwrap().unwrap();
    let aws = credential.aws.as_ref().map(|identity| {
        let token = identity.session_token.as_ref();
        let token = token.map(|token| token.expose_secret().to_owned());
        (identity.access_key_id.clone(), token)
    });
    let secret = credential.secret.expose_secret().to_owned();
    (credential.profile_id.clone(), secret, credential.bearer, aws)
}

fn refused(providers: &str, profile: &str, environment: &Environment) -> String {
    let profiles = format!(r#"[{{"id":"p","provider":"amazon-bedrock",{profile}}}]"#);
    let profiles = (!profile.is_empty()).then_some(profiles);
    match parse(Some(providers), profiles.as_deref(), environment) {
        Ok(_) => format!("accepted: {providers} {profile}"),
        Err(error) => {
            let text = error.to_string();
            assert!(!text.contains(SECRET), "{text}");
            text
        }
    }
}

#[test]
fn bedrock_is_at_its_region_and_uses_the_usual_keys_there_alone() {
    let both = [
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", ID),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_SESSION_TOKEN", "session"),
    ];
    let set = parse(Some(r#"{"amazon-bedrock":{}}"#), None, &Environment::fixed(both)).unwrap();
    let (api, url, _, _) = shape(&set, "amazon-bedrock");
    assert_eq!(
        (api, url.as_str()),
        (Api::BedrockConverse, "https://bedrock-runtime.eu-west-1.amazonaws.com/p")
    );
    let identity = Some((ID.to_owned(), Some("session".to_owned())));
    let expected = ("amazon-bedrock:env".to_owned(), SECRET.to_owned(), false, identity);
    assert_eq!(key(&set, "amazon-bedrock"), expected);

    // A Bedrock API key wins; the option wins over the environment.
    let environment =
        Environment::fixed([("AWS_BEARER_TOKEN_BEDROCK", "bearer"), both[1], both[2]]);
    let set = parse(Some(r#"{"bedrock":{"region":"us-east-1"}}"#), None, &environment).unwrap();
    assert_eq!(shape(&set, "bedrock").1, "https://bedrock-runtime.us-east-1.amazonaws.com/p");
    assert_eq!(key(&set, "bedrock").1, "bearer");

    let elsewhere = r#"{"bedrock":{"region":"us-east-1","baseUrl":"https://gateway.example"}}"#;
    let set = parse(Some(elsewhere), None, &environment).unwrap();
    assert!(set.credential("bedrock").unwrap().is_none());

    let set = parse(Some(r#"{"bedrock":{"region":"us-east-1"}}"#), None, &Environment::fixed([]))
        .unwrap();
    assert_eq!(
        set.credential("bedrock").unwrap_err().message,
        "`bedrock` has no key; pass one in `authProfiles`, or set `AWS_BEARER_TOKEN_BEDROCK`"
    );
}

#[test]
fn an_access_key_is_literal_or_in_variables_of_any_name() {
    let environment = Environment::fixed([("MY_SECRET", SECRET), ("AWS_ACCESS_KEY_ID", "no")]);
    let url = "https://bedrock-runtime.us-west-2.amazonaws.com";
    let providers = format!(r#"{{"amazon-bedrock":{{"baseUrl":"{url}"}}}}"#);
    let profiles = format!(
        r#"[{{"id":"p","provider":"amazon-bedrock","type":"aws",
             "key":{{"accessKeyId":"{ID}","secretAccessKey":{{"env":"MY_SECRET"}}}}}}]"#
    );
    let set = parse(Some(&providers), Some(&profiles), &environment).unwrap();
    let identity = Some((ID.to_owned(), None));
    let expected = ("p".to_owned(), SECRET.to_owned(), false, identity);
    assert_eq!(key(&set, "amazon-bedrock"), expected);
}

#[test]
fn every_wrong_aws_option_is_refused_with_its_path() {
    let none = Environment::fixed([]);
    let here = r#"{"amazon-bedrock":{"region":"us-east-1"}}"#;
    let regionless = r#"{"amazon-bedrock":{"baseUrl":"https://gateway.example"}}"#;
    let secret =
        format!(r#""type":"aws","key":{{"accessKeyId":"{ID}","secretAccessKey":"{SECRET}"}}"#);
    let untyped = secret.replace(r#""type":"aws","#, "");
    let spaced = secret.replace(SECRET, &format!("{SECRET} x"));
    let cases = [
        (
            r#"{"amazon-bedrock":{}}"#,
            "",
            "`providers.amazon-bedrock.region`: is missing; pass one like `us-east-1`, or set `AWS_REGION`",
        ),
        (
            r#"{"amazon-bedrock":{"region":"x.evil.example/"}}"#,
            "",
            "`providers.amazon-bedrock.region`: is not a region; pass one like `us-east-1`",
        ),
        (
            r#"{"openai":{"region":"us-east-1"}}"#,
            "",
            "`providers.openai.region`: is for `api: 'bedrock-converse'` only",
        ),
        (
            regionless,
            secret.as_str(),
            "`providers.amazon-bedrock.region`: is missing; pass one like `us-east-1`, or set `AWS_REGION`",
        ),
        (
            here,
            r#""type":"aws""#,
            "`authProfiles[0].key`: is missing; pass one, or set `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`",
        ),
        (
            here,
            r#""type":"aws","key":"sk-very-secret-0123456789""#,
            "`authProfiles[0].key`: is not an access key; pass `{ accessKeyId, secretAccessKey }`, or leave it out to read the usual variables",
        ),
        (here, untyped.as_str(), "`authProfiles[0].key`: is an access key; pass `type: 'aws'`"),
        (
            here,
            spaced.as_str(),
            "`authProfiles[0].key.secretAccessKey`: is no key: it has a space, or a character that no header may have",
        ),
        (
            here,
            r#""type":"aws","key":{"accessKeyId":"a"}"#,
            "`authProfiles[0].key`: has no `accessKeyId` or no `secretAccessKey`; pass both",
        ),
        (
            here,
            r#""type":"aws","key":{"accessKeyId":"a","secretAccessKey":{"env":"NO"}}"#,
            "`authProfiles[0].key.secretAccessKey.env`: is not the name of an environment variable that is set; set the variable, or pass the key itself as `key`",
        ),
        (
            r#"{"amazon-bedrock":{"api":"openai-chat","baseUrl":"https://h"}}"#,
            secret.as_str(),
            "`authProfiles[0].type`: `aws` is for providers with `api: 'bedrock-converse'` only",
        ),
    ];
    for (providers, profile, expected) in cases {
        assert_eq!(refused(providers, profile, &none), expected);
    }
}
