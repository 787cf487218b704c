"""Flags: metrics, TLS by the names and numbers of Go, and empty file names."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from apiserver.http.sinks.metric_filters import MetricFilter
from apiserver.options.flags import SettingsError, parser
from apiserver.options.settings import read
from apiserver.runtime.metrics import Counter, Gauge, Histogram, text
from apiserver.tls.self_signed import load_or_create_certificate

pytestmark = pytest.mark.integration


def render_metrics(*flags: str) -> str:
    """Render three metrics with a label under these flags."""
    counter, histogram = Counter("requests", "", ("code", "verb")), Histogram("seconds", "", ("verb",), (1.0,))
    gauge = Gauge("open", "", ("kind",), lambda: {("a",): 1, ("b",): 2})
    for code, verb in (("200", "GET"), ("404", "GET"), ("500", "GET"), ("500", "PUT")):
        counter.inc(code, verb)
    for seconds, verb in ((0.5, "GET"), (1.5, "GET"), (0.25, "PUT"), (2.0, "POST")):
        histogram.observe(seconds, verb)
    lines = text(MetricFilter(read(flags).metrics)([counter, histogram, gauge])).splitlines()
    return "\n".join(line for line in lines if not line.startswith("#"))


def test_values_that_are_not_allowed_count_together() -> None:
    found = render_metrics('--allow-metric-labels="requests,code=200,404","seconds,verb=GET","open,kind=a"')
    assert 'requests{code="200",verb="GET"} 1' in found
    assert 'requests{code="unexpected",verb="GET"} 1' in found
    assert 'requests{code="unexpected",verb="PUT"} 1' in found
    assert 'seconds_bucket{verb="unexpected",le="1"} 1' in found
    assert 'seconds_bucket{verb="unexpected",le="+Inf"} 2' in found
    assert 'seconds_sum{verb="unexpected"} 2.25' in found
    assert 'seconds_sum{verb="GET"} 2' in found
    assert 'open{kind="a"} 1' in found
    assert 'open{kind="unexpected"} 2' in found
    assert "cardinality_enforcement_unexpected_categorizations_total 5" in found


def test_one_label_needs_no_quotes_and_a_file_means_the_same(tmp_path: Path) -> None:
    file = tmp_path / "labels.yaml"
    file.write_text('"requests,code": "200,404"\n"requests,verb": "GET"\n')
    by_flags = render_metrics("--allow-metric-labels=requests,code=200,404", "--allow-metric-labels=requests,verb=GET")
    assert by_flags == render_metrics(f"--allow-metric-labels-manifest={file}")
    assert 'requests{code="unexpected",verb="unexpected"} 1' in by_flags


def test_disabled_metrics_are_left_out_and_counted() -> None:
    found = render_metrics("--disabled-metrics=requests,open", "--disabled-metrics=nothing")
    assert not [line for line in found.splitlines() if line.startswith(("requests", "open"))]
    assert "seconds_count" in found
    assert "disabled_metrics_total 3" in found


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--show-hidden-metrics-for-version=1.34", "must be omitted or have the value '1.35'"),
        ("--disabled-metrics=a-b", "a-b: not the name of a metric"),
        ("--allow-metric-labels=a,b", "a must be formatted as key=value"),
        ("--allow-metric-labels=a=b", "'a' is not the name of a metric and of a label"),
        ("--allow-metric-labels-manifest=/nowhere", "no such file"),
    ],
)
def test_a_wrong_flag_is_named(flag: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        read([flag])
    assert str(caught.value).startswith(flag.split("=")[0])


def context(*flags: str) -> ssl.SSLContext:
    """Return the context of a server with these flags."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    read(["--tls", *flags]).tls_options.restrict(made)
    return made


def older_suites(made: ssl.SSLContext) -> set[str]:
    """Return the suites for versions before TLS 1.3; those of 1.3 are always enabled."""
    return {suite["name"] for suite in made.get_ciphers() if suite["protocol"] != "TLSv1.3"}


def can_agree(folder: Path, server: ssl.SSLContext, curve: str) -> bool:
    """Return whether a client with one curve can connect to the server."""
    server.load_cert_chain(*load_or_create_certificate(folder))
    client = ssl.create_default_context(cafile=str(folder / "tls.crt"))
    client.set_ecdh_curve(curve)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(back, there, server_hostname="localhost"), server.wrap_bio(there, back, server_side=True)]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return False
    return True


def test_suites_go_by_gos_names_and_the_others_are_refused() -> None:
    names = "TLS_RSA_WITH_AES_256_CBC_SHA,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305,TLS_AES_128_GCM_SHA256"
    made = context(f"--tls-cipher-suites={names}", "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    assert older_suites(made) == {"AES256-SHA", "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-AES128-GCM-SHA256"}
    assert made.minimum_version == ssl.TLSVersion.TLSv1_2


def test_suites_of_only_the_newest_version_exclude_older_versions() -> None:
    assert context("--tls-cipher-suites=TLS_AES_128_GCM_SHA256").minimum_version == ssl.TLSVersion.TLSv1_3


def test_the_oldest_version_is_a_flag() -> None:
    assert context().minimum_version == ssl.TLSVersion.TLSv1_2
    assert context("--tls-min-version=VersionTLS13").minimum_version == ssl.TLSVersion.TLSv1_3


def test_one_curve_shuts_the_others_out_and_all_change_nothing(tmp_path: Path) -> None:
    assert can_agree(tmp_path, context("--tls-curve-preferences=24"), "secp384r1")
    assert not can_agree(tmp_path, context("--tls-curve-preferences=24"), "prime256v1")
    assert can_agree(tmp_path, context("--tls-curve-preferences=23,24,25,29,4588"), "prime256v1")


def test_suites_that_need_an_rsa_key_make_the_servers_own_one_rsa(tmp_path: Path) -> None:
    def key_of(*flags: str) -> object:
        certificate, _ = load_or_create_certificate(tmp_path, rsa=read(["--tls", *flags]).tls_options.rsa)
        return x509.load_pem_x509_certificate(certificate.read_bytes()).public_key()

    assert isinstance(key_of("--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"), ec.EllipticCurvePublicKey)
    assert isinstance(key_of("--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"), rsa.RSAPublicKey)


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--tls-cipher-suites=TLS_NULL", "Cipher suite TLS_NULL not supported or doesn't exist"),
        ("--tls-min-version=TLS13", 'unknown tls version "TLS13"'),
        ("--tls-curve-preferences=70000", r"curve preference 70000 is out of range \(must be 1-65535\)"),
        ("--tls-curve-preferences=29,29", "duplicate curve preference 29"),
        ("--tls-curve-preferences=1", "curve preference 1 is not known"),
        ("--tls-curve-preferences=23,24", "one curve, or all of 23, 24, 25, 29"),
    ],
)
def test_a_wrong_tls_flag_is_named(flag: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        read(["--tls", flag])
    assert str(caught.value).startswith(flag.split("=")[0])
    with pytest.raises(SettingsError, match="needs --tls or --tls-cert-file"):
        read([flag])


def test_suites_that_openssl_does_not_have_are_named() -> None:
    with pytest.raises(ValueError, match=r"--tls-cipher-suites: OpenSSL .* supports none of these"):
        context("--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA")


FILES = sorted(
    name
    for action in parser()._actions
    if action.metavar == "FILE"
    for name in action.option_strings
    if name[:2] == "--"
)


@pytest.mark.parametrize("flag", FILES)
def test_a_file_without_a_name_is_as_if_its_flag_were_not_given(flag: str) -> None:
    without = parser().parse_args(["--storage=memory"])
    assert parser().parse_args(["--storage=memory", f"{flag}="]) == without
    assert parser().parse_args([flag, "", "--storage=memory"]) == without


def test_other_flags_may_be_empty_and_a_file_has_to_have_a_name_after_its_flag() -> None:
    assert read(["--storage=memory", "--feature-gates="]).storage == "memory"
    with pytest.raises(SettingsError, match="--client-ca-file: expected one argument"):
        read(["--client-ca-file"])
    with pytest.raises(SettingsError, match="unrecognized arguments: --no-such-file="):
        read(["--no-such-file="])


@pytest.mark.parametrize(("flags", "name"), [((), ""), (("none",), ""), (("",), ""), (("standard",), "standard")])
def test_no_storage_class_is_created_for_none(flags: tuple[str, ...], name: str) -> None:
    settings = read(["--storage=memory", *(f"--storage-class={flag}" for flag in flags)])
    assert settings.storage_class == name
