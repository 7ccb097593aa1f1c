def page(report, title): return ""
def fragment(report): return ""
