//! Signing against the published vectors of Signature Version 4. It must never call a real service.

use bytes::Bytes;
use secrecy::SecretString;

use super::sign::{Signed, ToSign, sign};
use super::{AwsIdentity, base_url, region_of_host};

/// 2015-08-30T12:36:00Z, the time of the published suite.
const AT: i64 = 1_440_938_160_000;
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

fn request<'a>(method: &'a str, path: &'a str) -> ToSign<'a> {
    ToSign {
        method,
        host: "example.amazonaws.com",
        path,
        query: Vec::new(),
        headers: Vec::new(),
        body: &[],
        region: "us-east-1",
        service: "service",
        now_ms: AT,
    }
}

fn identity(session_token: Option<&str>) -> AwsIdentity {
    AwsIdentity {
        access_key_id: "AKIDEXAMPLE".to_owned(),
        session_token: session_token.map(SecretString::from),
    }
}

fn signed(request: &ToSign<'_>, token: Option<&str>) -> Signed {
    sign(request, &identity(token), &SECRET.into())
}

fn expected(names: &str, signature: &str) -> Signed {
    Signed {
        date: "20150830T123600Z".to_owned(),
        authorization: format!(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders={names}, Signature={signature}"
        ),
    }
}

#[test]
fn the_published_vectors_are_signed_as_published() {
    // get-vanilla, post-vanilla, get-vanilla-query-order-key-case
    assert_eq!(
        signed(&request("GET", "/"), None),
        expected(
            "host;x-amz-date",
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
        )
    );
    assert_eq!(
        signed(&request("POST", "/"), None),
        expected(
            "host;x-amz-date",
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
        )
    );
    let query = [("Param2", "value2"), ("Param1", "value1")];
    let query = query.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    assert_eq!(
        signed(&ToSign { query, ..request("GET", "/") }, None),
        expected(
            "host;x-amz-date",
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"
        )
    );
    // post-x-www-form-urlencoded, its body in two pieces
    let body = [Bytes::from_static(b"Param1"), Bytes::from_static(b"=value1")];
    let headers = vec![("content-type", "application/x-www-form-urlencoded")];
    assert_eq!(
        signed(&ToSign { headers, body: &body, ..request("POST", "/") }, None),
        expected(
            "content-type;host;x-amz-date",
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"
        )
    );
}

#[test]
fn a_session_token_is_signed_with_the_request() {
    // post-sts-header-before
    let token = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";
    assert_eq!(
        signed(&request("POST", "/"), Some(token)),
        expected(
            "host;x-amz-date;x-amz-security-token",
            "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"
        )
    );
}

#[test]
fn an_encoded_path_is_encoded_once_more_and_a_date_is_right_in_leap_years() {
    // Computed with another implementation (Python's hmac and hashlib) from the rules of Signature Version 4.
    let path = "/model/us.anthropic.claude-3-7-sonnet-20250219-v1%3A0/converse-stream";
    let made = signed(&ToSign { now_ms: 1_709_208_000_999, ..request("POST", path) }, None);
    assert_eq!(made.date, "20240229T120000Z");
    let signature = made.authorization.rsplit('=').next().unwrap();
    assert_eq!(signature, "629640c7e12ccfbbc5476eece3ae8a2d7b7a5d9dd1319fb22a0d0ef12c5f3e39");
    let dates =
        [(0, "19700101T000000Z"), (-1, "19691231T235959Z"), (951_868_800_000, "20000301T000000Z")];
    for (now_ms, date) in dates {
        assert_eq!(signed(&ToSign { now_ms, ..request("GET", "/") }, None).date, date);
    }
}

#[test]
fn a_region_is_read_from_bedrocks_own_hosts_only() {
    let own = [
        ("bedrock-runtime.us-east-1.amazonaws.com", Some("us-east-1")),
        ("bedrock-runtime-fips.us-gov-west-1.amazonaws.com", Some("us-gov-west-1")),
        ("bedrock-runtime.cn-north-1.amazonaws.com.cn", Some("cn-north-1")),
        ("vpce-1.bedrock-runtime.eu-west-1.vpce.amazonaws.com", Some("eu-west-1")),
        ("bedrock-runtime.us-east-1.example.com", None),
        ("s3.us-east-1.amazonaws.com", None),
        ("127.0.0.1", None),
    ];
    for (host, region) in own {
        assert_eq!(region_of_host(host), region, "{host}");
    }
    assert_eq!(base_url("eu-west-1"), "https://bedrock-runtime.eu-west-1.amazonaws.com");
    assert_eq!(base_url("cn-north-1"), "https://bedrock-runtime.cn-north-1.amazonaws.com.cn");
}
