"""Certificates of two authorities, made for a test by the openssl command."""

import subprocess

from workers import WorkersTest


class WithCertificates(WorkersTest):
    def setUp(self):
        super().setUp()
        for authority in ["ours", "theirs"]:
            self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt",
                         "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1", "-subj",
                         f"/CN={authority}", "-keyout", f"{authority}.key", "-out",
                         f"{authority}.crt")
            self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                         "-nodes", "-subj", "/CN=member", "-keyout", f"{authority}-member.key",
                         "-out", f"{authority}.csr")
            self.openssl("x509", "-req", "-days", "1", "-in", f"{authority}.csr", "-CA",
                         f"{authority}.crt", "-CAkey", f"{authority}.key", "-CAcreateserial",
                         "-out", f"{authority}-member.crt")

    def openssl(self, *words):
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)

    def of(self, authority, member=None):
        member = member or authority
        return ["--tls-ca", f"{authority}.crt", "--tls-cert", f"{member}-member.crt", "--tls-key",
                f"{member}-member.key"]
