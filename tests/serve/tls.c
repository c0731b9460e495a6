/* SPDX-License-Identifier: Apache-2.0 */
/* HTTPS with a certificate made here. */
#include "tests/support/http_client.h"
#include "tests/support/tap.h"

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool make_certificate(const char *certificate_path, const char *key_path) {
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    FILE *c = fopen(certificate_path, "w"), *k = fopen(key_path, "w");
    if (!key || !certificate || !c || !k) return false;
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME *name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"localhost", -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    bool ok = X509_sign(certificate, key, EVP_sha256()) > 0 && PEM_write_X509(c, certificate) == 1 &&
              PEM_write_PrivateKey(k, key, NULL, NULL, 0, NULL, NULL) == 1;
    fclose(c);
    fclose(k);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return ok;
}

/* One request; what came until the end, NUL-terminated. */
static void ask(SSL_CTX *context, const struct test_server *server, const char *request, char *out, size_t room) {
    int fd = client_connect(server);
    SSL *ssl = SSL_new(context);
    size_t n = 0;
    SSL_set_fd(ssl, fd);
    if (SSL_connect(ssl) == 1 && SSL_write(ssl, request, (int)strlen(request)) > 0)
        for (int k; n + 1 < room && (k = SSL_read(ssl, out + n, (int)(room - 1 - n))) > 0;) n += (size_t)k;
    out[n] = '\0';
    SSL_free(ssl);
    close(fd);
}

int main(void) {
    struct test_server server;
    char folder[200], certificate[300], key[300], answer[65536];
    signal(SIGPIPE, SIG_IGN);
    if (!folder_make_temporary(folder, sizeof folder)) return 1;
    snprintf(certificate, sizeof certificate, "%s/c.pem", folder);
    snprintf(key, sizeof key, "%s/k.pem", folder);
    if (!make_certificate(certificate, key)) return 1;
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (!server_start(
            &server, NULL,
            (const char *const[]){"--log-disable", "--ssl-cert-file", certificate, "--ssl-key-file", key, NULL}))
        return 1;
    ask(context, &server, "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", answer, sizeof answer);
    tap_ok(!strncmp(answer, "HTTP/1.1 200", 12) && strstr(answer, "{\"status\":\"ok\"}"), "https");
    static const char text[] = "{\"prompt\":\"The sea\",\"max_tokens\":20,\"temperature\":0,\"stream\":true}";
    char post[400];
    snprintf(post, sizeof post,
             "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
             sizeof text - 1, text);
    ask(context, &server, post, answer, sizeof answer);
    tap_ok(strstr(answer, "text/event-stream") && strstr(answer, "data: [DONE]"), "a stream over https");
    struct response r;
    int fd = client_connect(&server);
    client_puts(fd, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
    client_receive(fd, &r, NULL, 3000);
    tap_ok(r.status != 200, "plain http is not answered");
    response_free(&r);
    close(fd);
    ask(context, &server, "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", answer, sizeof answer);
    tap_ok(!strncmp(answer, "HTTP/1.1 200", 12), "and harms nobody");
    /* A client that goes away in the middle of a stream. */
    fd = client_connect(&server);
    SSL *ssl = SSL_new(context);
    SSL_set_fd(ssl, fd);
    static const char body[] = "{\"prompt\":\"The sea\",\"ignore_eos\":true,\"stream\":true}";
    char request[300];
    int n =
        snprintf(request, sizeof request, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%s",
                 sizeof body - 1, body);
    bool ok = SSL_connect(ssl) == 1 && SSL_write(ssl, request, n) == n && SSL_read(ssl, answer, 100) > 0;
    SSL_free(ssl);
    close(fd);
    usleep(150000);
    ask(context, &server, "GET /slots HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", answer, sizeof answer);
    tap_ok(ok && strstr(answer, "200 OK") && !strstr(answer, "\"is_processing\":true"),
           "a client that vanishes ends its request");
    tap_ok(server_stop(&server, 5000) == 0, "the server ends well");
    SSL_CTX_free(context);
    folder_remove(folder);
    return tap_done();
}
